import { may, ROLES } from '../../../access/role.ts';
import { A2A_ROUTES } from '../../../fronts/a2a/a2a-api.ts';
import { AG_UI_ROUTES } from '../../../fronts/ag-ui/handler.ts';
import { CHAT_ROUTES } from '../../../fronts/ai-sdk-ui/chat/chat-handler.ts';
import { MCP_ROUTES } from '../../../fronts/mcp/mcp-api.ts';
import { isJsonObject, type JsonObject } from '../../../protocol/json.ts';
import { toSchema } from '../../../server/openapi.ts';
import { type Route, type RouteTable, rightsFor } from '../../../server/route.ts';
import {
  OPEN_ROUTES,
  PAGE_ROUTES,
  RUNS_ROUTES,
  SERVER_ROUTES,
  V1_ROUTES,
} from '../../../server/route-table.ts';

/** The tables of docs/server.md, by the name of their place. */
const TABLES: Readonly<Record<string, RouteTable>> = {
  runs: RUNS_ROUTES,
  others: {
    ...OPEN_ROUTES,
    ...SERVER_ROUTES,
    ...PAGE_ROUTES,
    ...V1_ROUTES,
    ...MCP_ROUTES,
    ...A2A_ROUTES,
    ...CHAT_ROUTES,
    ...AG_UI_ROUTES,
  },
};

/** Members that all commands take; the page names them once. */
const COMMON = ['by', 'requestId'];

/** Inserts the tables of routes into docs/server.md. */
export function insertRouteTables(page: string): string {
  return Object.entries(TABLES).reduce((text, [name, routes]) => {
    const place = new RegExp(
      `(?<=<!-- routes:${name}:begin -->\\n)[\\s\\S]*?(?=<!-- routes:${name}:end -->)`,
    );
    if (!place.test(text)) throw new Error(`The page has no place for the routes "${name}".`);
    const rows = Object.entries(routes).map(([key, route]) => describeRow(key, route));
    return text.replace(place, () =>
      ['', '| route | does | for |', '| --- | --- | --- |', ...rows, '', ''].join('\n'),
    );
  }, page);
}

function describeRow(key: string, route: Route): string {
  const cells = [`\`${key}\``, [route.summary, ...describeInput(route)].join(' '), describeRoles(key, route)];
  return `| ${cells.join(' | ')} |`;
}

function describeInput({ query, body, parameters = [] }: Route): string[] {
  const own = parameters.filter(one => one.in === 'query').map(({ name }) => name);
  const names = [...(query === undefined ? [] : Object.keys(membersOf(toSchema(query)))), ...own];
  return [
    ...(names.length > 0 ? [`\`?${names.join('&')}\``] : []),
    ...(body === undefined ? [] : describeBody(toSchema(body))),
  ];
}

function describeBody(schema: JsonObject): string[] {
  if (schema.type === 'array') return ['`[…]`'];
  const members = Object.entries(membersOf(schema)).filter(([name]) => !COMMON.includes(name));
  if (members.length === 0) return [];
  return [`\`{ ${members.map(([name, isRequired]) => (isRequired ? name : `${name}?`)).join(', ')} }\``];
}

/** The members of an object, or of any of several, and whether they are in all. */
function membersOf(schema: JsonObject): Readonly<Record<string, boolean>> {
  const forms = Array.isArray(schema.anyOf) ? schema.anyOf.filter(isJsonObject) : [schema];
  const names = forms.flatMap(({ properties }) => (isJsonObject(properties) ? Object.keys(properties) : []));
  const isRequired = (name: string) =>
    forms.every(({ required }) => Array.isArray(required) && required.includes(name));
  return Object.fromEntries(names.map(name => [name, isRequired(name)]));
}

function describeRoles(key: string, route: Route): string {
  const [method = '', path = ''] = key.split(' ');
  const area = path.startsWith('/v1/') ? 'v1' : 'runs';
  const rolesFor = (name: string) =>
    ROLES.filter(role => rightsFor(route, name, area).some(right => may({ role }, right))).join(', ');
  if (method === 'ALL') return `${rolesFor('POST')}; GET: ${rolesFor('GET')}`;
  return route.open === true ? `${rolesFor(method)}, and without a token` : rolesFor(method);
}
