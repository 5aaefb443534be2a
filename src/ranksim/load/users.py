"""Locust users that play a profile: what locustfiles import."""

from ranksim.judge.load.users import user_class

__all__ = ["user_class"]
