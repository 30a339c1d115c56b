"""Statement B of docs/theory.md: the outputs that its proofs start from, and the sign that two vectors hide."""

import itertools

import torch

WIDTH, HEADS, PAIRS = 5, 3, 2


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def last_output(form, written, sequence):
    """Of one attention layer. form(h, o): the D x D form of head h at offset o; written[h]: its map from values to the output."""
    x, total = sequence[-1], 0
    for h, n in enumerate(written):
        logits = torch.stack([x @ form(h, len(sequence) - 1 - j) @ y for j, y in enumerate(sequence)])
        total = total + torch.softmax(logits, 0) @ torch.stack(sequence) @ n
    return total


def test_two_copies_and_another_vector_without_positions():
    m, n, (x, y) = drawn(1, HEADS, WIDTH, WIDTH), drawn(2, HEADS, WIDTH, WIDTH), drawn(3, 2, WIDTH)
    p = torch.stack([x @ m[h] @ (x - y) for h in range(HEADS)])
    closed = y @ n.sum(0) + sum(torch.sigmoid(p[h] - torch.tensor(2.0).log()) * (x - y) @ n[h] for h in range(HEADS))
    torch.testing.assert_close(last_output(lambda h, o: m[h], n, [y, y, x]), closed)


def rotary_forms():
    q, k = (torch.complex(drawn(s, HEADS, PAIRS, WIDTH), drawn(s + 1, HEADS, PAIRS, WIDTH)) for s in (4, 6))
    angles = torch.tensor([1.0, 0.3], dtype=torch.float64)
    products = torch.einsum("hbi,hbj->hbij", q, k.conj())

    def form(h, o):
        return (torch.polar(torch.ones_like(angles), o * angles)[:, None, None] * products[h]).sum(0).real

    return form, products, angles


def test_one_vector_and_copies_of_another_with_rotary_positions():
    form, _, _ = rotary_forms()
    n, (x, y) = drawn(2, HEADS, WIDTH, WIDTH), drawn(3, 2, WIDTH)
    for o in range(1, 5):
        closed = x @ n.sum(0)
        for h in range(HEADS):
            others = torch.stack([x @ form(h, s) @ x for s in range(o)]).logsumexp(0)
            closed = closed + torch.sigmoid(x @ form(h, o) @ y - others) * (y - x) @ n[h]
        torch.testing.assert_close(last_output(form, n, [y] + [x] * o), closed)


def test_as_many_offsets_as_a_head_is_wide_determine_its_pairs_and_fewer_do_not():
    form, products, angles = rotary_forms()
    nodes = torch.cat([torch.polar(torch.ones_like(angles), sign * angles) for sign in (1.0, -1.0)])
    offsets = torch.arange(1, 2 * PAIRS + 1)
    system = nodes[None, :] ** offsets[:, None] / 2
    forms = torch.stack([form(0, int(o)) for o in offsets]).to(system.dtype)
    found = torch.linalg.solve(system, forms.flatten(1)).view(-1, WIDTH, WIDTH)
    torch.testing.assert_close(found[:PAIRS], products[0])
    assert torch.linalg.matrix_rank(system[:-1]) < 2 * PAIRS


def test_two_vectors_hide_a_sign_and_three_show_it():
    m, n = drawn(1, 2, WIDTH, WIDTH), drawn(2, 1, WIDTH, WIDTH)
    n = torch.cat([n, -n])  # the heads' outputs add up to zero
    for length, same in ((1, True), (2, True), (3, False)):
        vectors = list(drawn(8, length, WIDTH))
        one, other = (last_output(lambda h, o, sign=sign: sign * m[h], sign * n, vectors) for sign in (1, -1))
        assert torch.allclose(one, other) == same
    for sequence in itertools.product(drawn(9, 2, WIDTH), repeat=2):  # the control: outputs that do not add up to zero
        one, other = (last_output(lambda h, o, sign=sign: sign * m[h], sign * n[:1], list(sequence)) for sign in (1, -1))
        assert not torch.allclose(one, other)
