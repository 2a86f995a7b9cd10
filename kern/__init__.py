"""kern: turns a checklist in a repository into commits you can trust."""

__version__ = "0.1.0"
