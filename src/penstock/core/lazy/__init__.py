"""What is made when it is first looked at: public names of a package, elements of a sequence."""
