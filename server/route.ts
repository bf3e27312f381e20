import type { Context, Hono } from 'hono';
import { etag } from 'hono/etag';
import { matchedRoutes } from 'hono/route';
import type { ParamKeys } from 'hono/types';
import * as z from 'zod';
import type { Right } from '../access/role.ts';
import { type BodyLimits, describeIssues, readBody } from './read-body.ts';
import type { RunsEnv } from './runs-env.ts';

/** What a route answers with if all is well: JSON, or text of one of several media types. */
export type RouteAnswer = {
  status?: 200 | 201 | 204;
  description?: string;
  json?: z.core.$ZodType;
  text?: readonly string[];
};

/** Its validation, its authorization, its entries in `/openapi.json` and in the documentation come from here. */
export type Route = {
  summary: string;
  description?: string;
  /** The right, or one of the rights, that a caller needs. Default: `read` for GET, else that to change something. */
  right?: Right | readonly Right[];
  /** Whether it answers without a caller too. A caller still needs the right. */
  open?: true;
  /** Without one, the query is ignored, or belongs to the handler. */
  query?: z.ZodObject;
  /** Without one, the body is ignored, or belongs to the handler. */
  body?: z.ZodType;
  /** Parameters that its handler reads and checks by itself. */
  parameters?: readonly {
    name: string;
    in: 'path' | 'query' | 'header';
    schema: { type: 'string' | 'integer'; minimum?: number };
  }[];
  tagged?: true;
  /** Whether it can answer with a stream, of which a server has so many; `asked`: with `?stream=true`. */
  streams?: true | 'asked';
  /** The schema of the JSON, or more. Without it and `streams`, the route is not in `/openapi.json`. */
  answer?: RouteAnswer | z.core.$ZodType;
};

/** Routes by method and path. `ALL`: any method. */
export type RouteTable = Readonly<Record<`${'GET' | 'POST' | 'DELETE' | 'ALL'} /${string}`, Route>>;

export type Area = 'runs' | 'v1';

/** What a handler gets of a request, besides its context: validated where the route has a schema. */
type Input<Key, Row> = {
  params: Readonly<Record<ParamKeys<Key>, string>>;
  query: Row extends { query: infer Query extends z.ZodType } ? z.output<Query> : undefined;
  body: Row extends { body: infer Body extends z.ZodType } ? z.output<Body> : undefined;
};

export type Handlers<Table> = {
  [Key in keyof Table]: (c: Context<RunsEnv>, input: Input<Key, Table[Key]>) => Response | Promise<Response>;
};

const tagged = etag({ weak: true });

/** Adds the routes of a table. A request that does not fit its route's schemas is refused with `input-invalid`. */
export function mountRoutes<Table extends RouteTable>(
  app: Hono<RunsEnv>,
  limits: BodyLimits,
  table: Table,
  handlers: Handlers<Table>,
): void {
  for (const [key, route] of Object.entries(table)) {
    const [method = '', path = ''] = key.split(' ');
    const handle = handlers[key as keyof Table];
    if (route.tagged === true) app.on(method, path, tagged);
    app.on(method, path, async c => {
      const query = route.query && readQuery(c, route.query);
      const body = route.body && (await readBody(c.req.raw, route.body, limits));
      // What the schemas of this route return, which the types of `Handlers` say for each key.
      return await handle(c, { params: c.req.param(), query, body } as never);
    });
  }
}

function readQuery(c: Context, schema: z.ZodObject): unknown {
  const given = Object.entries(c.req.queries()).map(([name, values]) => [
    name,
    isList(schema.shape[name]) ? values : values[0],
  ]);
  const query = schema.safeParse(Object.fromEntries(given));
  if (query.success) return query.data;
  throw describeIssues(query.error.issues);
}

function isList(schema: z.core.$ZodType | undefined): boolean {
  return schema instanceof z.ZodExactOptional ? isList(schema.unwrap()) : schema instanceof z.ZodArray;
}

/** The route of the table that a request reaches, also if its app is mounted below a path; `undefined` if none. */
export function findRoute(c: Context, table: RouteTable): Route | undefined {
  const routes: Readonly<Record<string, Route>> = table;
  return matchedRoutes(c)
    .map(
      ({ method, path, basePath }) => routes[`${method} ${path.slice(basePath.replace(/\/$/, '').length)}`],
    )
    .find(route => route !== undefined);
}

export function methodsAt(path: string, table: RouteTable): string[] {
  const found = Object.keys(table).flatMap(key => {
    const [method = '', pattern = ''] = key.split(' ');
    const own = pattern.replace(/[.]/g, '\\.').replace(/:\w+/g, '[^/]+').replace('*', '.*');
    return new RegExp(`^${own}$`).test(path) ? [method] : [];
  });
  return [...new Set(found)];
}

/** The rights of which a request to an area needs one, also without a route. */
export function rightsFor(route: Route | undefined, method: string, area: Area): readonly Right[] {
  if (route?.right !== undefined) return [route.right].flat();
  const right = area === 'v1' ? 'generate' : 'command';
  return method === 'GET' || method === 'HEAD' ? ['read', right] : [right];
}
