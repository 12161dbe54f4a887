"""Structure in your own training loop: a pure function, compiled, and on a GPU recorded in a CUDA graph.

The agent is double DQN on random transitions; only the way from two networks to targets matters here.
"""

import torch
from torch import Tensor, nn

from svrl.integrations.pytorch import structured, structured_quantiles, structured_values

BATCH, ACTIONS, DISCOUNT = 32, 18, 0.99
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def targets(rewards: Tensor, continues: Tensor, online_q: Tensor, target_q: Tensor, updates: Tensor) -> Tensor:
    """Double DQN's: the online network chooses, the completed matrix says what that is worth."""
    values = structured_values(target_q, 0.9, online_q=online_q, seed=0, updates=updates)
    return rewards + DISCOUNT * continues * values


def main() -> None:
    torch.manual_seed(0)
    online, target = (nn.Linear(8, ACTIONS, device=DEVICE) for _ in range(2))
    optimizer = torch.optim.SGD(online.parameters(), lr=0.01)
    # As a tensor the count can change in a graph or under a compiler; a plain number does elsewhere.
    updates = torch.zeros((), dtype=torch.int64, device=DEVICE)
    # One graph without a break. The default backend serves as well, and takes longer to begin.
    compiled = torch.compile(targets, fullgraph=True, backend="aot_eager")

    for update in range(200):
        states, after = torch.randn(2, BATCH, 8, device=DEVICE)
        rewards, continues = states.sum(1), torch.ones(BATCH, device=DEVICE)
        with torch.no_grad():
            wanted = compiled(rewards, continues, online(after), target(after), updates)
        loss = nn.functional.mse_loss(online(states)[:, 0], wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        if update % 50 == 49:
            target.load_state_dict(online.state_dict())
    print(f"{int(updates)} updates with masks of their own, last loss {loss.item():.2f}")

    with torch.no_grad():
        q = target(torch.randn(BATCH, 8, device=DEVICE))
        several = target(torch.randn(4, BATCH, 8, device=DEVICE))
    print("the same arguments, the same result:", torch.equal(structured(q, updates=7), structured(q, updates=7)))
    print("p = 1 changes no bit:", torch.equal(structured(q, 1.0), q))
    print("values (B, A)", tuple(structured(q, updates=0).shape))
    print("values of K batches (K, B, A)", tuple(structured(several, updates=0).shape))
    quantiles = q[:, None] + torch.linspace(-1, 1, 51, device=DEVICE).view(1, -1, 1)
    print("quantiles (B, N, A)", tuple(structured_quantiles(quantiles, updates=0).shape), "follow their means")

    if DEVICE == "cuda":
        updates.zero_()
        structured(q, updates=updates)  # compiles the kernel, which a graph cannot
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            whole = structured(q, updates=updates)
        for update in range(3):
            graph.replay()
            print(f"replay {update} is update {update}:", torch.equal(whole, structured(q, updates=update)))
            updates += 1


main()
