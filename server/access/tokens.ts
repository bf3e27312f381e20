import { createHash, timingSafeEqual } from 'node:crypto';
import { ANYONE, type Caller, labelsFor, MAIN_OPERATOR } from '../../access/caller.ts';
import { EngineError } from '../../protocol/error.ts';
import type { TokensConfig } from './access-config.ts';

const SHORTEST = 16;

const RESERVED: readonly string[] = [ANYONE.name, MAIN_OPERATOR.name];

type Known = { caller: Caller; digest: Buffer };

/** Throws `input-invalid` for tokens that are short, not for a header, used twice or reserved; no message shows one. */
export class Tokens {
  readonly #known: readonly Known[];

  constructor(main: string | undefined, configured: TokensConfig = {}) {
    const named = Object.entries(configured).map(
      ([key, { token, role, name = key, groups = [], labels = {} }]) => {
        assertUsable(key, token);
        if (RESERVED.includes(name))
          throw invalidConfig(`"${name}" is a reserved name. Rename who uses "${key}".`);
        const own = name === key ? {} : { token: key };
        const caller: Caller = {
          name,
          role,
          groups,
          labels: labelsFor(role, name, labels),
          known: 'token',
          ...own,
        };
        return { caller, digest: digestOf(token) };
      },
    );
    const own = main === undefined ? [] : [{ caller: MAIN_OPERATOR, digest: digestOf(main) }];
    this.#known = [...own, ...named];
    assertDistinct(this.#known);
  }

  /** The callers with a token. Without any, every request is from `ANYONE`. */
  get callers(): Caller[] {
    return this.#known.map(({ caller }) => caller);
  }

  /** The caller with this token; `undefined` if there is none. Takes the same time for every token. */
  find(token: string): Caller | undefined {
    const digest = digestOf(token);
    let found: Caller | undefined;
    for (const known of this.#known) if (timingSafeEqual(known.digest, digest)) found = known.caller;
    return found;
  }
}

function assertUsable(name: string, token: string): void {
  if (RESERVED.includes(name)) throw invalidConfig(`"${name}" is a reserved name. Rename the token.`);
  if (!/^[\x21-\x7e]*$/.test(token))
    throw invalidConfig(
      `the token "${name}" has characters that no header can carry. Use visible ASCII characters.`,
    );
  if (token.length < SHORTEST)
    throw invalidConfig(
      `the token "${name}" has fewer than ${SHORTEST} characters. Make one that cannot be guessed: openssl rand -hex 32`,
    );
}

function assertDistinct(known: readonly Known[]): void {
  for (const [at, { caller, digest }] of known.entries()) {
    const other = known.slice(at + 1).find(later => later.digest.equals(digest));
    if (other === undefined) continue;
    const first = caller === MAIN_OPERATOR ? 'AGENTCHART_TOKEN (or --token)' : `"${caller.name}"`;
    throw invalidConfig(`${first} and "${other.caller.name}" are the same token. Give each caller its own.`);
  }
}

function invalidConfig(problem: string): EngineError {
  return new EngineError('input-invalid', `The server's tokens are not valid: ${problem}`);
}

/** Digests have equal lengths, so comparing them takes the same time for every token. */
function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
