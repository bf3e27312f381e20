import { isDeepStrictEqual } from 'node:util';
import type { Context } from 'hono';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { asSentence, findMeant } from '../../../protocol/options/refuse-unknown.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import { readAnyBody } from '../../read-body.ts';
import type { RunsEnv } from '../../runs-env.ts';
import { type FieldRule, type FieldRules, REQUEST_FIELDS, type RequestApi } from './field-table.ts';
import { KnownBodies } from './known-bodies.ts';

type Path = readonly (string | number)[];

type RefusedField = {
  path: Path;
  /** Why; for an unknown field, the names that are known there. */
  reason:
    | { type: 'unsupported'; note: string; code: string | undefined }
    | { type: 'other-model' }
    | { type: 'unknown'; known: string[] };
};

/** Names fields without effect in a header of the response, beside those that it names already. */
export function nameIgnored(c: Context<RunsEnv>, fields: readonly string[]): void {
  c.header('agentchart-ignored', fields.join(', '), { append: true });
}

/** Applies the tables of fields to the requests of a gateway. */
export class RequestFields {
  readonly #options: { providerOf(model: string | undefined): string; log(line: string): void };
  readonly #logged = new Set<string>();
  readonly #bodies = new KnownBodies();

  constructor(options: { providerOf(model: string | undefined): string; log(line: string): void }) {
    this.#options = options;
  }

  /**
   * The body of a request. Its fields without effect are named in a header of the response, also of a failure. Throws a
   * `ResponsesError` for the first field that is refused.
   */
  async readBody(c: Context<RunsEnv>, api: RequestApi): Promise<unknown> {
    const sender = `${api} ${c.get('caller').name}`;
    const body = await readAnyBody(c, (text, limits) => this.#bodies.parse(sender, text, limits));
    this.check(api, body, ignored => nameIgnored(c, ignored));
    return body;
  }

  /** `tell` gets the fields without effect by their names in the tables. Each is logged once. Throws like `readBody`. */
  check(api: RequestApi, body: unknown, tell: (ignored: readonly string[]) => void = () => {}): void {
    // The schema refuses anything but an object.
    if (!isJsonObject(body)) return;
    const { model } = body;
    const isName = typeof model === 'string' || model == null;
    const judge = new Judge(() => (isName ? this.#options.providerOf(model ?? undefined) : ''));
    judge.object(body, REQUEST_FIELDS[api], [], '');
    const ignored = [...judge.ignored];
    if (ignored.length > 0) tell(ignored);
    for (const field of ignored) this.#logOnce(api, field);
    if (judge.refused !== undefined) throw describeRefusal(api, judge.refused);
  }

  #logOnce(api: RequestApi, field: string): void {
    const key = `${api} ${field}`;
    if (this.#logged.has(key)) return;
    this.#logged.add(key);
    this.#options.log(`A request to ${ROUTES[api]} has the field "${field}", which was ignored.`);
  }
}

const ROUTES: Readonly<Record<RequestApi, string>> = {
  responses: '/v1/responses',
  compact: '/v1/responses/compact',
  chat: '/v1/chat/completions',
  messages: '/v1/messages',
};

/** A name in an error, which a client chose. */
const LONGEST_PATH = 200;

/** In the words of the API's own refusals. */
function describeRefusal(api: RequestApi, { path, reason }: RefusedField): ResponsesError {
  const isAnthropic = api === 'messages';
  const place = (isAnthropic ? path.join('.') : bracketed(path)).slice(0, LONGEST_PATH);
  const refuse = (code: string, openai: string, anthropic: string) =>
    invalid(place, code, isAnthropic ? `${place}: ${anthropic}` : openai);
  switch (reason.type) {
    case 'unsupported': {
      const note = asSentence(reason.note);
      const said = `${note.charAt(0).toUpperCase()}${note.slice(1)}`;
      return refuse(
        reason.code ?? 'unsupported_parameter',
        `Unsupported parameter: '${place}' is not supported. ${said}`,
        `This field is not supported. ${said}`,
      );
    }
    case 'other-model':
      return refuse(
        'unsupported_parameter',
        `Unsupported parameter: '${place}' is not supported for this model.`,
        'This parameter is not supported for this model.',
      );
    case 'unknown': {
      const meant = findMeant(String(path.at(-1)), reason.known);
      const advice = meant === undefined ? '' : ` Did you mean '${meant}'?`;
      return refuse(
        'unknown_parameter',
        `Unknown parameter: '${place}'.${advice}`,
        `Extra inputs are not permitted${meant === undefined ? '' : `.${advice}`}`,
      );
    }
  }
}

function bracketed(path: Path): string {
  const place = path.map(key => (typeof key === 'number' ? `[${key}]` : `.${key}`)).join('');
  return place.slice(1);
}

/** A field that is `null` counts as absent. */
class Judge {
  readonly ignored = new Set<string>();
  refused: RefusedField | undefined;
  readonly #providerOf: () => string;

  constructor(providerOf: () => string) {
    this.#providerOf = providerOf;
  }

  object(value: JsonObject, rules: FieldRules, path: Path, name: string): void {
    for (const [field, member] of Object.entries(value)) {
      if (member === null) continue;
      const at = [...path, field];
      const rule = Object.hasOwn(rules, field) ? rules[field] : undefined;
      if (rule === undefined) this.#refuse(at, { type: 'unknown', known: Object.keys(rules) });
      else this.#field(member, rule, at, name === '' ? field : `${name}.${field}`);
    }
  }

  #field(value: JsonValue, rule: FieldRule, path: Path, name: string): void {
    const fate = this.#fateOf(rule, value);
    if (fate === 'hint') this.ignored.add(name);
    if (fate === 'refused')
      this.#refuse(
        path,
        rule.fate === 'used'
          ? { type: 'other-model' }
          : { type: 'unsupported', note: rule.note ?? '', code: rule.code },
      );
    if (fate !== 'used') return;
    for (const [at, entry] of (Array.isArray(value) ? value : [value]).entries()) {
      const members = isJsonObject(entry) ? membersOf(rule, entry) : undefined;
      if (members && isJsonObject(entry))
        this.object(entry, members, Array.isArray(value) ? [...path, at] : path, name);
    }
  }

  #fateOf({ fate, only, unless }: FieldRule, value: JsonValue): FieldRule['fate'] {
    if (unless?.some(harmless => isDeepStrictEqual(harmless, value))) return 'used';
    return only === undefined || only.providers.includes(this.#providerOf()) ? fate : only.else;
  }

  /** The first is what the client reads. */
  #refuse(path: Path, reason: RefusedField['reason']): void {
    this.refused ??= { path, reason };
  }
}

function membersOf({ members, kinds }: FieldRule, { type }: JsonObject): FieldRules | undefined {
  if (kinds === undefined) return members;
  const named = typeof type === 'string' ? type : Object.keys(kinds)[0];
  const kind = Object.keys(kinds).find(kind => named === kind || named?.startsWith(`${kind}_`));
  return kind === undefined ? undefined : kinds[kind];
}
