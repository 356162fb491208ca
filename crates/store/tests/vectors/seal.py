"""Sealed records, implemented a second time from docs/formats/storage.md alone.

Promise: nothing here comes from the Rust code, and nothing but Python's standard library is used, so that two
implementations agree only if the page is right. It is for tests: it is slow, and it does not hide its timing.

    python3 seal.py check FILE    opens, refuses and seals again every vector of the file
    python3 seal.py exchange      reads a list of sealed records from stdin, writes what they hold and seals it anew
"""

import hashlib
import hmac
import json
import re
import secrets
import sys

SALT = b"corkboard encryption at rest"
RECORD_LABEL = b"record AES-256-GCM"
CHECK_LABEL = b"key check"
CHECK_BYTES, AES_KEY_BYTES, TIME_BYTES, NONCE_BYTES, TAG_BYTES, NAME_BYTES_MAX = 16, 32, 8, 12, 16, 127


class Refused(Exception):
    """Why a value cannot be opened: no-name, unknown-key, cut-off or damaged."""


# --- HKDF-SHA256, RFC 5869 ---------------------------------------------------------------------------------------


def derive(secret, label, length):
    root = hmac.digest(SALT, secret, hashlib.sha256)
    output, block = b"", b""
    while len(output) < length:
        block = hmac.digest(root, block + label + bytes([len(output) // 32 + 1]), hashlib.sha256)
        output += block
    return output[:length]


# --- AES-256, FIPS 197 -------------------------------------------------------------------------------------------


def double(byte):
    return (byte << 1 ^ 0x1B) & 0xFF if byte & 0x80 else byte << 1


def make_sbox():
    """The inverse in GF(2^8), by powers of the generator 3, then the affine map."""
    power, powers = 1, []
    for _ in range(255):
        powers.append(power)
        power ^= double(power)
    sbox = [0x63] * 256
    for at, byte in enumerate(powers):
        inverse = powers[-at % 255]
        turned = inverse * 0x101
        sbox[byte] = (turned ^ turned >> 7 ^ turned >> 6 ^ turned >> 5 ^ turned >> 4) & 0xFF ^ 0x63
    return sbox


SBOX = make_sbox()
ROUNDS = 14


def expand_key(key):
    words = [key[at : at + 4] for at in range(0, AES_KEY_BYTES, 4)]
    constant = 1
    while len(words) < 4 * (ROUNDS + 1):
        word = words[-1]
        if len(words) % 8 == 0:
            word = bytes(SBOX[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = double(constant)
        elif len(words) % 8 == 4:
            word = bytes(SBOX[byte] for byte in word)
        words.append(xor(word, words[-8]))
    return [b"".join(words[at : at + 4]) for at in range(0, len(words), 4)]


def encrypt_block(round_keys, block):
    state = xor(block, round_keys[0])
    for number, round_key in enumerate(round_keys[1:], 1):
        # SubBytes and ShiftRows: row r of column c comes from column c + r.
        state = bytes(SBOX[state[(at + 4 * (at % 4)) % 16]] for at in range(16))
        if number < ROUNDS:
            state = b"".join(mix(state[at : at + 4]) for at in range(0, 16, 4))
        state = xor(state, round_key)
    return state


def mix(column):
    all_four = column[0] ^ column[1] ^ column[2] ^ column[3]
    return bytes(column[row] ^ all_four ^ double(column[row] ^ column[(row + 1) % 4]) for row in range(4))


def xor(one, other):
    return bytes(a ^ b for a, b in zip(one, other))


# --- GCM, NIST SP 800-38D ----------------------------------------------------------------------------------------


def multiply(x, y):
    """In GF(2^128), where the first bit is the lowest power."""
    product = 0
    for bit in range(127, -1, -1):
        if x >> bit & 1:
            product ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return product


def padded(data):
    return data + bytes(-len(data) % 16)


def gcm(aes_key, nonce, text, associated, ciphertext=None):
    """The text turned by the key stream, and the tag over the ciphertext, which is the result unless it is given."""
    round_keys = expand_key(aes_key)
    counter = lambda number: nonce + number.to_bytes(4, "big")
    blocks = range(-(-len(text) // 16))
    stream = b"".join(encrypt_block(round_keys, counter(number + 2)) for number in blocks)
    turned = xor(text, stream)
    sealed = turned if ciphertext is None else ciphertext
    lengths = (8 * len(associated)).to_bytes(8, "big") + (8 * len(sealed)).to_bytes(8, "big")
    hashed = padded(associated) + padded(sealed) + lengths
    subkey = int.from_bytes(encrypt_block(round_keys, bytes(16)), "big")
    digest = 0
    for at in range(0, len(hashed), 16):
        digest = multiply(digest ^ int.from_bytes(hashed[at : at + 16], "big"), subkey)
    return turned, xor(encrypt_block(round_keys, counter(1)), digest.to_bytes(16, "big"))


# --- Sealed records, docs/formats/storage.md ---------------------------------------------------------------------


def place_of(store_key):
    """The data version and the path that a seal is bound to; a record that was moved aside keeps its own."""
    path = re.sub(r"\A/quarantine/[0-9]{20}(?=/)", "", store_key)
    return int(re.match(r"/v([1-9][0-9]*)/", path)[1]), path


def associated_data(time, version, path):
    return time + f"{version}:{path}".encode()


def seal(name, secret, version, path, time_ns, nonce, plain):
    time = time_ns.to_bytes(TIME_BYTES, "big", signed=True)
    aes_key = derive(secret, RECORD_LABEL, AES_KEY_BYTES)
    ciphertext, tag = gcm(aes_key, nonce, plain, associated_data(time, version, path))
    return b"0007" + name.encode() + b":" + time + nonce + ciphertext + tag


def open_sealed(keys, version, path, value):
    head = re.match(rb"0007([A-Za-z0-9_-]{1,%d}):" % NAME_BYTES_MAX, value)
    if head is None:
        raise Refused("no-name")
    name, rest = head[1].decode(), value[head.end() :]
    if name not in keys:
        raise Refused("unknown-key")
    if len(rest) < TIME_BYTES + NONCE_BYTES + TAG_BYTES:
        raise Refused("cut-off")
    time, rest = rest[:TIME_BYTES], rest[TIME_BYTES:]
    nonce, ciphertext, tag = rest[:NONCE_BYTES], rest[NONCE_BYTES:-TAG_BYTES], rest[-TAG_BYTES:]
    aes_key = derive(keys[name], RECORD_LABEL, AES_KEY_BYTES)
    plain, expected = gcm(aes_key, nonce, ciphertext, associated_data(time, version, path), ciphertext)
    if not hmac.compare_digest(tag, expected):
        raise Refused("damaged")
    return plain


# --- What tests ask for ------------------------------------------------------------------------------------------


def check(file):
    with open(file, encoding="utf-8") as opened:
        vectors = json.load(opened)
    keys = {key["name"]: bytes.fromhex(key["bytes"]) for key in vectors["keys"]}
    for key in vectors["keys"]:
        equal(key["name"], "AES key", derive(keys[key["name"]], RECORD_LABEL, AES_KEY_BYTES).hex(), key["aes_key"])
        equal(key["name"], "check value", derive(keys[key["name"]], CHECK_LABEL, CHECK_BYTES).hex(), key["check"])
    for case in vectors["sealed"]:
        version, path = place_of(case["lies_at"])
        equal(case["case"], "place", (version, path), (case["version"], case["path"]))
        time = case["time_ns"].to_bytes(TIME_BYTES, "big", signed=True)
        equal(case["case"], "associated data", associated_data(time, version, path).hex(), case["associated_data"])
        nonce, plain, sealed = (bytes.fromhex(case[field]) for field in ("nonce", "plain", "sealed"))
        again = seal(case["key"], keys[case["key"]], version, path, case["time_ns"], nonce, plain)
        equal(case["case"], "sealed value", again.hex(), sealed.hex())
        equal(case["case"], "plain value", open_sealed(keys, version, path, sealed).hex(), plain.hex())
    for case in vectors["refused"]:
        try:
            open_sealed(keys, case["version"], case["path"], bytes.fromhex(case["sealed"]))
            found = "opened"
        except Refused as refused:
            found = str(refused)
        equal(case["case"], "refusal", found, case["why"])
    print(f"{len(vectors['keys'])} keys, {len(vectors['sealed'])} sealed, {len(vectors['refused'])} refused")


def equal(case, what, found, expected):
    if found != expected:
        sys.exit(f"{case}: the {what} is\n  {found}\nand has to be\n  {expected}")


def exchange():
    answers = []
    for record in json.load(sys.stdin):
        secret = bytes.fromhex(record["bytes"])
        version, path = place_of(record["lies_at"])
        plain = open_sealed({record["key"]: secret}, version, path, bytes.fromhex(record["sealed"]))
        nonce = secrets.token_bytes(NONCE_BYTES)
        again = seal(record["key"], secret, version, path, record["time_ns"], nonce, plain)
        answers.append({"plain": plain.hex(), "sealed": again.hex()})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        check(sys.argv[2])
    elif sys.argv[1:] == ["exchange"]:
        exchange()
    else:
        sys.exit(__doc__)
