"""What users hand in, checked before it is used."""
