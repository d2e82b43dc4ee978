//! What needs another machine than this one, or a look inside.
