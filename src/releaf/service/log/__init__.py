"""Write-ahead log: events, group commit, snapshots, recovery and audit."""
