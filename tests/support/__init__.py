"""What several tests share. No test imports from another test."""
