"""The statement IR: expressions, statements and domains, their text, rules and meaning."""
