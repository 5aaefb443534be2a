"""The six checks in order: each alone, then pairs, by dry run and for real, and what they consume.

Run it: RANKSIM_KEY=... locust -f loadtests/ladder.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Ladder = user_class("ladder")
