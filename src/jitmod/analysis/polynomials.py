"""Integer arithmetic of the user's code as polynomials, so that two ways to write one number are seen to be equal."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Monomial: TypeAlias = tuple[str, ...]  # sorted atoms; () is the constant


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of atoms: each product with its factor, none of them 0.

    `written` has an expression for each atom.
    """

    terms: Mapping[Monomial, int]
    written: Mapping[str, ast.expr]

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return _of(terms, {**self.written, **other.written})

    def __neg__(self) -> Polynomial:
        return _of({m: -f for m, f in self.terms.items()}, self.written)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for a, f in self.terms.items():
            for b, g in other.terms.items():
                product = tuple(sorted((*a, *b)))
                terms[product] = terms.get(product, 0) + f * g
        return _of(terms, {**self.written, **other.written})

    @property
    def number(self) -> int | None:
        """Its value where it is a constant."""
        return self.terms.get((), 0) if set(self.terms) <= {()} else None

    def mentions(self, atom: str) -> bool:
        return any(atom in monomial for monomial in self.terms)

    def slope(self, atom: str) -> Polynomial | None:
        """What `atom` is multiplied by; None where it occurs in a power of itself."""
        terms: dict[Monomial, int] = {}
        for monomial, factor in self.terms.items():
            if monomial.count(atom) > 1:
                return None
            if atom in monomial:
                rest = list(monomial)
                rest.remove(atom)
                terms[tuple(rest)] = factor
        return _of(terms, self.written)

    def at(self, atom: str, value: Polynomial) -> Polynomial | None:
        """The polynomial with `value` for `atom`; None where it occurs in a power of itself."""
        slope = self.slope(atom)
        if slope is None:
            return None
        return _of({m: f for m, f in self.terms.items() if atom not in m}, self.written) + slope * value

    def at_most(self) -> Polynomial:
        """A polynomial that is never smaller, with `a` for `2 * (a // 2)`."""
        found = self
        for atom, node in self.written.items():
            slope = found.slope(atom)
            match node:
                case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Constant(value=int(divisor))):
                    whole, factor = polynomial(left), slope.number if slope is not None else None
                    if whole is not None and factor is not None and factor > 0 and factor % divisor == 0:
                        found += _of({(atom,): -factor}, {}) + constant(factor // divisor) * whole
        return found

    def text(self, atoms: Mapping[str, str]) -> str:
        """The polynomial as Python; `atoms` says how each atom is written."""
        parts = list(self._parts(atoms))
        if not parts:
            return "0"
        sign, first = parts[0]
        return ("-" if sign < 0 else "") + first + "".join(f" {'-' if s < 0 else '+'} {p}" for s, p in parts[1:])

    def _parts(self, atoms: Mapping[str, str]) -> Iterator[tuple[int, str]]:
        """The products with their signs: positive ones first, the constant last."""
        for monomial, factor in sorted(self.terms.items(), key=lambda t: (t[1] < 0, t[0] == (), t[0])):
            factors = [atoms[a] for a in monomial]
            if abs(factor) != 1 or not factors:
                factors.insert(0, str(abs(factor)))
            yield factor, " * ".join(factors)


def _of(terms: Mapping[Monomial, int], written: Mapping[str, ast.expr]) -> Polynomial:
    kept = {m: f for m, f in terms.items() if f}
    atoms = {a for m in kept for a in m}
    return Polynomial(kept, {a: e for a, e in written.items() if a in atoms})


def constant(number: int) -> Polynomial:
    return _of({(): number}, {})


def polynomial(expr: ast.expr) -> Polynomial | None:
    """An expression of integers, lengths and names of integers; None where it is something else.

    `len(x)` and `x.shape[0]` are one atom.
    """
    match expr:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return constant(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = polynomial(operand)
            return -inner if inner is not None else None
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            a, b = polynomial(left), polynomial(right)
            if a is None or b is None:
                return None
            return a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Constant(value=int(divisor))) if divisor > 0:
            return _atom(ast.unparse(expr), expr)
        case ast.Name() | ast.Attribute():
            return _atom(ast.unparse(expr), expr)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as counted], keywords=[]):
            return _atom(length_atom(counted, 0), expr)
        case ast.Subscript(value=ast.Attribute(value=ast.Name() | ast.Attribute() as array, attr="shape"), slice=axis):
            if isinstance(axis, ast.Constant) and type(axis.value) is int and axis.value >= 0:
                return _atom(length_atom(array, axis.value), expr)
    return None


def length_atom(array: ast.expr, axis: int) -> str:
    """The atom that stands for the length of an axis."""
    return f"{ast.unparse(array)}.shape[{axis}]"


def _atom(name: str, expr: ast.expr) -> Polynomial:
    return _of({(name,): 1}, {name: expr})
