"""The endpoints, one function per operation of the table: translate the request, call the service, translate back."""
