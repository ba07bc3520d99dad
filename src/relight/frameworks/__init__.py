"""Framework adapters: each implements its framework's own store protocol on relight. They are independent."""
