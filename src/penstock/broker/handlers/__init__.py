"""API handlers, one module per family of APIs: authorise, translate the request, call one operation, translate back."""
