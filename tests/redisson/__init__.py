"""Real jars of Redisson and processes of ours on the same locks; and what its versions are known to do."""
