"""What a file or a folder of this project is, and what it was made from."""
