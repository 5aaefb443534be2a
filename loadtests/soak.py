"""A constant arrival rate below every limit: latency from the planned instant, and nothing refused.

Run it: RANKSIM_KEY=... locust -f loadtests/soak.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Soak = user_class("soak")
