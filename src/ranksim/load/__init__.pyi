from ranksim.judge.load.loading import load as load
