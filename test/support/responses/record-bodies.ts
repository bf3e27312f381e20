import type { JsonObject } from '../../../protocol/json.ts';
import type { RunsApp } from '../../../server/app.ts';

/** The app, and the JSON bodies that it receives, oldest first. */
export function recordBodies(app: RunsApp): { app: RunsApp; bodies: JsonObject[] } {
  const bodies: JsonObject[] = [];
  const fetch: RunsApp['fetch'] = async (request, ...rest) => {
    if (request.method === 'POST') bodies.push((await request.clone().json()) as JsonObject);
    return await app.fetch(request, ...rest);
  };
  return { app: { ...app, fetch }, bodies };
}
