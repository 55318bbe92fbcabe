"""Azure Personalizer's API: Rank, Reward and Activate in its JSON, answered by an experiment."""
