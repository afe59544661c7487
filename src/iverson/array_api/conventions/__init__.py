"""What all chapters share: operands, methods, dtypes, constants and inspection."""
