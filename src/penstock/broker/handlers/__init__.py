"""One module per family of APIs: authorise, translate, one operation, translate back."""
