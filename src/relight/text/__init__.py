"""Text for people: formatted values, and foreign text without control characters."""
