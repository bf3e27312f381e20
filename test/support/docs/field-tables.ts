import {
  CHAT_FIELDS,
  type FieldRule,
  type FieldRules,
  MESSAGES_FIELDS,
  RESPONSES_FIELDS,
} from '../../../server/gateway/request/field-table.ts';

const TABLES: Readonly<Record<string, FieldRules>> = {
  responses: RESPONSES_FIELDS,
  chat: CHAT_FIELDS,
  messages: MESSAGES_FIELDS,
};

/** Inserts the tables of the fields of requests into docs/request-fields.md. */
export function insertFieldTables(page: string): string {
  return Object.entries(TABLES).reduce((text, [name, rules]) => {
    const place = new RegExp(`(?<=<!-- ${name}:begin -->\\n)[\\s\\S]*?(?=<!-- ${name}:end -->)`);
    if (!place.test(text)) throw new Error(`The page has no place for the fields of ${name}.`);
    const rows = rowsOf(rules, '').map(row => `| ${row.join(' | ')} |`);
    return text.replace(place, () => ['', '| field | |', '| --- | --- |', ...rows, '', ''].join('\n'));
  }, page);
}

/** The fields of an object with one fate share a row. */
function rowsOf(rules: FieldRules, parent: string): string[][] {
  const byFate = new Map<string, string[]>();
  for (const [name, rule] of Object.entries(rules)) {
    if (name === 'type' || (isPlain(rule) && hasMembers(rule))) continue;
    const fate = describe(rule);
    byFate.set(fate, [...(byFate.get(fate) ?? []), `\`${parent}${name}\``]);
  }
  return [
    ...[...byFate].map(([fate, names]) => [names.join(', '), fate]),
    ...Object.entries(rules).flatMap(([name, { members = {}, kinds = {} }]) => [
      ...rowsOf(members, `${parent}${name}.`),
      ...Object.entries(kinds).flatMap(([kind, inner]) => rowsOf(inner, `${parent}${name}[${kind}].`)),
    ]),
  ];
}

function isPlain({ fate, note, only }: FieldRule): boolean {
  return fate === 'used' && note === undefined && only === undefined;
}

function hasMembers({ members, kinds }: FieldRule): boolean {
  return members !== undefined || kinds !== undefined;
}

const WORDS = { used: 'used', hint: '**ignored**', refused: '**refused**' } as const;

function describe({ fate, note, only, unless }: FieldRule): string {
  const about = note === undefined ? '' : `: ${note}`;
  const values = (unless ?? []).map(value => `\`${JSON.stringify(value)}\``).join(' and ');
  const except = values === '' ? '' : `, except ${values}`;
  if (only === undefined) return `${WORDS[fate]}${except}${about}`;
  return `used with ${only.providers.join(', ')}; ${WORDS[only.else]} with others${except}${about}`;
}
