import type { Client, RequestOptions } from '@modelcontextprotocol/client';
import { type McpResources, offerResources } from './resources.ts';
import { type McpSkills, offerSkills } from './server-skills.ts';
import { offerTool, type ServerOffer } from './server-tool.ts';
import type { McpSession } from './session.ts';

type Wanted = {
  server: string;
  resources: McpResources | undefined;
  skills: McpSkills | undefined;
  /** Called when what was listed has changed. */
  onChanged(): void;
  timeout: number;
};

/** How long a list is used whose server of revision 2026-07-28 does not say how long it stays fresh. */
const UNKNOWN_FRESH_MS = 60_000;
const LONGEST_FRESH_MS = 24 * 3_600_000;

/**
 * What the server offers, in the order of names, so that requests are the same whichever order a server lists them in.
 * `freshMs`: how long that holds, if the server does not say otherwise. Rejects with the error from `explain`.
 * @internal
 */
export async function listOffers({ ask, explain }: McpSession, wanted: Wanted) {
  const options = { timeout: wanted.timeout, signal: AbortSignal.timeout(wanted.timeout) };
  try {
    return await ask(client => fetchOffers(client, wanted, options));
  } catch (error) {
    throw explain(error);
  }
}

async function fetchOffers(
  client: Client,
  { server, resources, skills, onChanged }: Wanted,
  options: RequestOptions,
) {
  const { tools: hasTools, resources: hasResources } = client.getServerCapabilities() ?? {};
  const offers: ServerOffer[] = [];
  const limits: unknown[] = [];
  if (hasTools !== undefined) {
    const { tools, ttlMs } = await client.listTools(undefined, { ...options, cacheMode: 'bypass' });
    offers.push(...tools.map(offerTool));
    limits.push(ttlMs);
  }
  if (resources !== undefined && hasResources !== undefined)
    offers.push(...offerResources(server, resources));
  if (skills !== undefined) {
    const found = await offerSkills(client, { ...skills, onChanged }, options);
    offers.push(...found.offers);
    limits.push(found.ttlMs);
  }
  offers.sort((one, other) => (one.described.name < other.described.name ? -1 : 1));
  const isCurrent = client.getProtocolEra() === 'modern' && limits.length > 0;
  return { offers, freshMs: isCurrent ? Math.min(...limits.map(freshFor)) : Number.POSITIVE_INFINITY };
}

function freshFor(ttlMs: unknown): number {
  const isGiven = typeof ttlMs === 'number' && ttlMs > 0;
  return isGiven ? Math.min(ttlMs, LONGEST_FRESH_MS) : UNKNOWN_FRESH_MS;
}
