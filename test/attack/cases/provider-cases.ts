import * as z from 'zod';
import type { ModelAdapter } from '../../../protocol/adapter.ts';
import { messageOf, ProviderError } from '../../../protocol/error.ts';
import { userMessage } from '../../../protocol/message.ts';
import { tool } from '../../../tools/tool.ts';
import { makeRandom } from '../../crash/plan.ts';
import { subjects } from '../../support/adapters/fixtures/subjects.ts';
import { warpTime, withinReal } from '../chaos/warp-time.ts';
import type { AttackCase } from './attack-case.ts';
import { runToEnd } from './attacked-run.ts';
import { type Finding, found } from './finding.ts';
import { endlessly, type HostileProvider, startHostileProvider, whole } from './hostile-provider.ts';
import { nest, nestedArguments } from './nested-json.ts';
import { bodyWithCall, bodyWithText, dialectOf } from './wire-answers.ts';

const KEY = 'sk-attack-0123456789abcdef';
const OWN_HEADER = 'attack-header-0123456789';
const CONVERSATION = 'what-was-said-7Q';

/** The AI SDK's packages send requests, follow redirects and read bodies themselves, out of this project's control. */
const OURS = Object.keys(subjects).filter(name => name !== 'aiSdk');
const ALL = Object.keys(subjects);

type Target = { name: string; model: ModelAdapter; provider: HostileProvider };

/** Attacks each adapter with its own provider, one after another or all at once. */
async function attackEach(
  names: readonly string[],
  attack: (target: Target) => Promise<Finding[]>,
  { atOnce = false, maxResponseBytes = 64 * 1024 * 1024 } = {},
): Promise<Finding[]> {
  const one = async (name: string) => {
    const provider = await startHostileProvider();
    const options = {
      baseURL: provider.baseURL,
      apiKey: KEY,
      maxResponseBytes,
      idleTimeoutMs: 300_000,
      headers: { 'x-attack': OWN_HEADER },
    };
    const model = subjects[name]?.open(options);
    if (model === undefined) throw new Error(`There is no adapter "${name}".`);
    const findings = await attack({ name, model, provider });
    await provider.close();
    return findings.map(({ figure, what }) => found(figure, `${name}: ${what}`));
  };
  if (atOnce) return (await Promise.all(names.map(one))).flat();
  const findings: Finding[] = [];
  for (const name of names) findings.push(...(await one(name)));
  return findings;
}

/** Makes one call, streamed or not; it must return a turn or throw a `ProviderError`. */
async function call(model: ModelAdapter, stream: boolean): Promise<unknown> {
  const request = {
    transcript: [userMessage(CONVERSATION)],
    tools: [],
    toolChoice: 'auto',
    settings: {},
  } as const;
  const { signal } = new AbortController();
  try {
    if (!stream) await model.generate(request, { signal });
    else for await (const _ of model.stream(request, { signal }));
    return null;
  } catch (error) {
    return error;
  }
}

function mustBeNamed(error: unknown, what: string): Finding[] {
  if (error === null || error instanceof ProviderError) return [];
  return [found('broken', `${what}: threw no ProviderError: ${messageOf(error)}`)];
}

async function attackWithRedirects(): Promise<Finding[]> {
  const other = await startHostileProvider(whole('{}'));
  const findings = await attackEach(OURS, async ({ model, provider }) => {
    const leaks: Finding[] = [];
    for (const status of [301, 302, 303, 307, 308]) {
      for (const stream of [false, true]) {
        provider.answer((response, _, url) =>
          response.writeHead(status, { location: other.baseURL + url }).end(),
        );
        await call(model, stream);
        const secret = other.seen.splice(0).find(isSecret);
        if (secret !== undefined)
          leaks.push(found('leaked', `${status} took to another origin ${secret.slice(0, 160)}`));
      }
    }
    return leaks;
  });
  await other.close();
  return findings;
}

function isSecret(request: string): boolean {
  return [KEY, OWN_HEADER, CONVERSATION].some(secret => request.includes(secret));
}

const LONG = 100_000;

/** Texts that look like the start of a credential; each made some pattern take quadratic time. */
const BAITS = [
  'sk-',
  'sk-a',
  'Bearer ',
  'authorization: ',
  'api key: ',
  '?key=',
  'a',
  'AIza',
  'x-api-key"',
  ' ',
];

async function attackWithLongErrors(seed: number): Promise<Finding[]> {
  const random = makeRandom(seed);
  const mixed = Array.from({ length: 20 }, () => BAITS[Math.floor(random() * BAITS.length)]).join('');
  const texts = [`sk-${'a'.repeat(LONG)}`, ...[...BAITS, mixed].map(bait => bait.repeat(LONG / bait.length))];
  return await attackEach(ALL, async ({ model, provider }) => {
    const findings: Finding[] = [];
    for (const text of texts) {
      const message = `Incorrect API key provided: ${KEY} ${text}`;
      for (const body of [JSON.stringify({ error: { message, type: 'invalid_request_error' } }), message]) {
        provider.answer(whole(body, 400));
        const error = await call(model, false);
        findings.push(...mustBeNamed(error, 'a long error'));
        const shown = error instanceof ProviderError ? error.message + JSON.stringify(error.raw) : '';
        if (shown.includes(KEY)) findings.push(found('leaked', 'the error has the key'));
      }
    }
    return findings;
  });
}

async function attackWithBadStreams(seed: number): Promise<Finding[]> {
  const random = makeRandom(seed);
  const noise = Buffer.from(Array.from({ length: 100_000 }, () => Math.floor(random() * 256)));
  const bodies = [
    noise,
    `data: ${'x'.repeat(3_000_000)}`,
    'data: {\n\n'.repeat(20_000),
    'event: x\n'.repeat(100_000),
    'data\n\n'.repeat(100_000),
    'data: [DONE]\n\n'.repeat(20_000),
    `data: ${nest(50_000, '[', ']')}\n\n`,
    `data: ${nest(50_000, '{"a":', '}')}\n\n`,
    '\r'.repeat(500_000),
    'data: null\n\ndata: 1\n\ndata: "x"\n\ndata: []\n\n',
    '{"error":1}\n'.repeat(1_000),
  ];
  return await attackEach(ALL, async ({ model, provider }) => {
    const findings: Finding[] = [];
    for (const [place, body] of bodies.entries()) {
      for (const type of ['text/event-stream', 'application/x-ndjson']) {
        provider.answer(whole(body, 200, type));
        findings.push(...mustBeNamed(await call(model, true), `bad stream ${place} as ${type}`));
      }
    }
    return findings;
  });
}

async function attackWithEndlessStreams(): Promise<Finding[]> {
  const pieces = [': on\n\n'.repeat(2_000), 'x'.repeat(16_000), ' '.repeat(16_000)];
  const attack = async ({ model, provider }: Target) => {
    const findings: Finding[] = [];
    for (const piece of pieces) {
      for (const type of ['text/event-stream', 'application/json']) {
        provider.answer(endlessly(piece, type));
        findings.push(...mustBeNamed(await call(model, true), 'an endless stream'));
      }
    }
    return findings;
  };
  return await attackEach(OURS, attack, { maxResponseBytes: 2 * 1024 * 1024 });
}

/** One byte every five real ms, which is every 2.5 s on these clocks. Two hours pass in 15 s. */
const DRIP_MS = 5;
const WARP = 500;
const LONGEST_WARPED_MS = 15_000;

async function attackWithDrips(): Promise<Finding[]> {
  const everyMs = DRIP_MS * WARP;
  warpTime(WARP);
  const attack =
    (stream: boolean) =>
    async ({ model, provider }: Target) => {
      const [piece, type] = stream ? [':', 'text/event-stream'] : [' ', 'application/json'];
      provider.answer(endlessly(piece, type, everyMs));
      const ends = call(model, stream).then(error => mustBeNamed(error, 'a slow answer'));
      return await withinReal(LONGEST_WARPED_MS, ends, 'a byte now and then keeps a call open forever');
    };
  const modes = [true, false].map(stream => attackEach(ALL, attack(stream), { atOnce: true }));
  return (await Promise.all(modes)).flat();
}

const take = tool({
  name: 'take',
  description: 'Takes anything.',
  input: z.looseObject({}),
  sideEffect: 'none',
  run: () => 'taken',
});

async function attackWithArguments(input: string): Promise<Finding[]> {
  return await attackEach(ALL, async ({ name, model, provider }) => {
    const dialect = dialectOf(name);
    const bodies = [bodyWithCall(dialect, input), bodyWithText(dialect)];
    provider.answer((response, nth, url) => whole(bodies[Math.min(nth, 1)] ?? '')(response, nth, url));
    const { findings } = await runToEnd(model, [take], { stream: false });
    const calls = provider.seen.length;
    return findings.length === 0 && calls < 2
      ? [found('broken', `the model was called ${calls} times: it did not read the result`)]
      : findings;
  });
}

/** Follows a redirect like `fetch`, with a key in a header. */
async function followCarelessly(): Promise<Finding[]> {
  const other = await startHostileProvider(whole('{}'));
  const provider = await startHostileProvider(response =>
    response.writeHead(307, { location: other.baseURL }).end(),
  );
  await fetch(provider.baseURL, { method: 'POST', headers: { 'x-api-key': KEY }, body: CONVERSATION });
  const leaks = other.seen.filter(isSecret).map(request => found('leaked', request));
  await Promise.all([provider.close(), other.close()]);
  return leaks;
}

export const providerCases: readonly AttackCase[] = [
  { name: 'redirects to another origin', short: true, run: attackWithRedirects },
  { name: 'errors of 100,000 characters', short: true, run: ({ seed }) => attackWithLongErrors(seed) },
  { name: 'streams that are none', run: ({ seed }) => attackWithBadStreams(seed) },
  { name: 'streams without an end', run: attackWithEndlessStreams },
  { name: 'a byte now and then', run: attackWithDrips },
  { name: 'arguments of 4 MB', run: () => attackWithArguments(`{"text":"${'x'.repeat(4_000_000)}"}`) },
  {
    name: 'arguments nested 5,000 deep',
    short: true,
    run: () => attackWithArguments(nestedArguments(5_000)),
  },
  { name: 'a careless fetch', control: true, short: true, run: followCarelessly },
];
