import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { readVersion } from '../../../cli/options.ts';
import { makeProgram } from '../../../cli/program.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../../protocol/json.ts';
import { describeGatewayConfig } from '../../../server/gateway/config/gateway-config.ts';
import { describeApi } from '../../../server/openapi.ts';
import { OPEN_ROUTES, RUNS_ROUTES, SERVER_ROUTES } from '../../../server/route-table.ts';
import { describeFormat } from '../../golden/format.ts';

/** The pages of docs/reference by path, each from what the program itself says. */
export function referencePages(): ReadonlyMap<string, string> {
  return new Map([
    ['reference/cli.md', commandPage()],
    ['reference/events.md', eventPage()],
    ['reference/http.md', httpPage()],
    ['reference/configuration.md', configurationPage()],
  ]);
}

const page = (...parts: string[]) => `${parts.join('\n\n')}\n`;
const table = (heads: string[], rows: string[][]) =>
  [heads, heads.map(() => '---'), ...rows].map(cells => `| ${cells.join(' | ')} |`).join('\n');
const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ');
const code = (text: string) => `\`${cell(text)}\``;
const isText = (value: unknown): value is string => typeof value === 'string';

function commandPage(): string {
  const describe = (command: Command, names: string[]): string[] => {
    let help = '';
    command.configureOutput({
      writeOut: text => {
        help += text;
      },
      getOutHelpWidth: () => 100,
      getOutHasColors: () => false,
    });
    command.outputHelp();
    const below = command.commands.filter(one => one.name() !== 'help');
    return [
      ...(names.length === 0 ? [] : [`## ${names.join(' ')}`]),
      `\`\`\`text\n${help.trimEnd()}\n\`\`\``,
      ...below.flatMap(one => describe(one, [...names, one.name()])),
    ];
  };
  return page(
    '# The command line',
    'What `agentchart --help` and `agentchart COMMAND --help` print.',
    ...describe(
      makeProgram(() => {}),
      [],
    ),
  );
}

/** What the source of the events says about each: its kind, and its doc comment. */
const EVENT_SOURCE = /(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?\s*(input|report|event)\(\s*'([\w.-]+)'/g;
const KINDS = {
  input: ['Inputs', 'What people and clients do. Any process may append one.'],
  report: ['Reports', 'What the driver of the run says about the effects that it carries out.'],
  event: ['Bookkeeping', 'What is kept in the journal and changes no state.'],
} as const;
const COMMON = ['type', 'at', 'generation', 'requestId', 'asked'];

function eventPage(): string {
  const source = readFileSync(new URL('../../../protocol/event.ts', import.meta.url), 'utf8');
  const { format, events } = describeFormat();
  const found = [...source.matchAll(EVENT_SOURCE)];
  if (found.length !== Object.keys(events).length)
    throw new Error('Not every event was found in its source.');
  const parts = Object.entries(KINDS).flatMap(([kind, [title, meaning]]) => [
    `## ${title}`,
    meaning,
    ...found
      .filter(([, , of]) => of === kind)
      .flatMap(([, comment = '', , type = '']) => describeEvent(type, comment, events)),
  ]);
  return page(
    '# Events of a journal',
    `Every event that a journal can hold (format ${format}). Each has \`type\` and \`at\`, in ms since the epoch. Inputs can have \`requestId\` and \`asked\`, which recognize a repeated request; reports have \`generation\`, the number of the service's start. \`?\` marks what may be missing.`,
    ...parts,
  );
}

function describeEvent(type: string, comment: string, events: JsonObject): string[] {
  const members = membersOf(events[type] ?? null).filter(({ name }) => !COMMON.includes(name));
  const text = comment
    .replace(/\s*\n\s*\* ?(?=-)/g, '\n')
    .replace(/\s*\n\s*\*? ?/g, ' ')
    .trim();
  return [
    `### ${type}`,
    ...(text === '' ? [] : [text]),
    ...(members.length === 0 ? [] : [describeMembers(members)]),
  ];
}

type Member = { name: string; schema: JsonObject; isRequired: boolean };

function membersOf(schema: JsonValue): Member[] {
  if (!isJsonObject(schema) || !isJsonObject(schema.properties)) return [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(schema.properties).map(([name, member]) => ({
    name,
    schema: isJsonObject(member) ? member : {},
    isRequired: required.includes(name),
  }));
}

function describeMembers(members: readonly Member[]): string {
  const hasText = members.some(({ schema }) => isText(schema.description));
  const rows = members.map(({ name, schema, isRequired }) => [
    code(isRequired ? name : `${name}?`),
    code(fitType(schema)),
    ...(hasText ? [cell(String(schema.description ?? ''))] : []),
  ]);
  return table(['name', 'type', ...(hasText ? ['meaning'] : [])], rows);
}

const LONGEST_TYPE = 160;

/** A schema in the words of TypeScript, as deep as there is room. */
function fitType(schema: JsonValue | undefined): string {
  const texts = [2, 1, 0].map(depth => describeType(schema, depth));
  return texts.find(({ length }) => length <= LONGEST_TYPE) ?? texts.at(-1) ?? '';
}

function describeType(schema: JsonValue | undefined, depth: number): string {
  if (!isJsonObject(schema)) return 'unknown';
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(alternatives))
    return [...new Set(alternatives.map(one => describeType(one, depth)))].join(' | ');
  if (typeof schema.$ref === 'string') return schema.$ref.replace(/^.*\//, '');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map(one => JSON.stringify(one)).join(' | ');
  if (Array.isArray(schema.type)) return schema.type.join(' | ');
  if (schema.type === 'array') {
    const item = describeType(schema.items, depth);
    return item.includes(' | ') ? `(${item})[]` : `${item}[]`;
  }
  if (schema.type !== 'object') return String(schema.type ?? 'JSON');
  const members = membersOf(schema);
  if (members.length === 0)
    return isJsonObject(schema.additionalProperties)
      ? `Record<string, ${describeType(schema.additionalProperties, depth)}>`
      : 'object';
  if (depth === 0) return '{ … }';
  const described = members.map(
    one => `${one.name}${one.isRequired ? '' : '?'}: ${describeType(one.schema, depth - 1)}`,
  );
  return `{ ${described.join(', ')} }`;
}

function httpPage(): string {
  const routes = { ...OPEN_ROUTES, ...SERVER_ROUTES, ...RUNS_ROUTES };
  const { paths, components } = describeApi(routes, { version: readVersion(), hasToken: true });
  const schemas = isJsonObject(components) && isJsonObject(components.schemas) ? components.schemas : {};
  const areas = Map.groupBy(objectsOf(paths), ([path]) => /^\/[\w.-]+/.exec(path)?.[0] ?? path);
  const operations = [...areas].flatMap(([area, group]) => [
    `## ${area}`,
    ...group.flatMap(([path, methods]) =>
      objectsOf(methods).flatMap(([method, operation]) => describeOperation(method, path, operation)),
    ),
  ]);
  return page(
    '# HTTP routes',
    'What `GET /openapi.json` of `agentchart serve` says, without its schemas of deeper values. [The server](../server.md) explains tokens, roles and the other routes.',
    ...operations,
    '## Objects',
    ...objectsOf(schemas).flatMap(([name, schema]) => [`### ${name}`, describeMembers(membersOf(schema))]),
  );
}

function objectsOf(value: JsonValue | undefined): [string, JsonObject][] {
  return Object.entries(isJsonObject(value) ? value : {}).flatMap(([name, member]) =>
    isJsonObject(member) ? [[name, member]] : [],
  );
}

function describeOperation(method: string, path: string, operation: JsonObject): string[] {
  const { summary, description, parameters, requestBody, responses } = operation;
  const roles = operation['x-roles'];
  const given = (Array.isArray(parameters) ? parameters.filter(isJsonObject) : []).map(one => [
    code(one.required === true ? String(one.name) : `${one.name}?`),
    String(one.in),
    code(fitType(one.schema)),
    cell(String(one.description ?? (isJsonObject(one.schema) ? one.schema.description : undefined) ?? '')),
  ]);
  const body = bodyOf(requestBody);
  const members = membersOf(body ?? null);
  const answers = objectsOf(responses).filter(([status]) => status !== 'default');
  return [
    `### ${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`,
    [summary, description].filter(isText).join(' '),
    `For ${Array.isArray(roles) ? roles.join(', ') : 'everyone'}.`,
    ...(given.length === 0 ? [] : [table(['parameter', 'in', 'type', 'meaning'], given)]),
    ...(body === undefined
      ? []
      : [members.length > 0 ? describeMembers(members) : `Body: ${code(fitType(body))}`]),
    ...answers.map(([status, answer]) => {
      const schema = bodyOf(answer);
      return `Answers ${status}${schema === undefined ? '' : `: ${code(fitType(schema))}`}.`;
    }),
  ];
}

function bodyOf(holder: JsonValue | undefined): JsonObject | undefined {
  const [content] = isJsonObject(holder) ? objectsOf(holder.content) : [];
  return content !== undefined && isJsonObject(content[1].schema) ? content[1].schema : undefined;
}

function configurationPage(): string {
  const schema = describeGatewayConfig();
  const parts = membersOf(schema).flatMap(({ name, schema: member }) => {
    const rows = rowsOf(member, name);
    return [
      `## ${name}`,
      ...(isText(member.description) ? [member.description] : []),
      table(['option', 'type', 'meaning'], rows),
    ];
  });
  return page(
    '# The configuration file',
    'Every option of the file of `agentchart serve --config FILE`, from its schema, which `agentchart serve --config-schema` prints. `NAME` stands for names of your own, `*` for each element of a list. [The server](../server.md) has examples.',
    ...parts,
  );
}

function rowsOf(schema: JsonObject, path: string): string[][] {
  const alternatives = (Array.isArray(schema.anyOf) ? schema.anyOf : [schema]).filter(isJsonObject);
  const below = alternatives.flatMap(one => [
    ...membersOf(one).flatMap(({ name, schema: member }) => rowsOf(member, `${path}.${name}`)),
    ...(isJsonObject(one.additionalProperties) ? rowsOf(one.additionalProperties, `${path}.NAME`) : []),
    ...(isJsonObject(one.items) && membersOf(one.items).length > 0 ? rowsOf(one.items, `${path}.*`) : []),
  ]);
  const preset =
    schema.default === undefined || isJsonObject(schema.default)
      ? ''
      : ` Default: ${code(JSON.stringify(schema.default))}.`;
  const own = [
    code(path),
    code(describeType(schema, 0)),
    `${cell(String(schema.description ?? ''))}${preset}`.trim(),
  ];
  const isOnlyHolder = below.length > 0 && own[2] === '' && alternatives.length === 1;
  return isOnlyHolder ? below : [own, ...below];
}
