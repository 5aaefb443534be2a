"""Webhook attempts without a job of its own: tests, their retries, the count of 20; spends nothing.

Run it: RANKSIM_KEY=... locust -f loadtests/endpoints.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Endpoints = user_class("endpoints")
