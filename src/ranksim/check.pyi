from ranksim.judge.check.deployment import check as check
