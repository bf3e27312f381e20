import type { Page } from 'playwright-core';
import * as z from 'zod';
import { scripted } from '../../../adapters/scripted.ts';
import {
  type Agent,
  createAgent,
  type Item,
  memory,
  type Run,
  type Store,
  tool,
} from '../../../agent/index.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { ExploreAgent } from '../../../server/runs/explore-route.ts';
import { explore } from '../../../testing/index.ts';
import { notes } from '../../../tools/notes/index.ts';
import { sayReport } from '../../../visualizer/describe-exploration.ts';
import { calls } from '../engine/agents.ts';
import { makeNote, NEW_REFUND, playRun } from '../regress/played-runs.ts';
import { makeDemoAgents } from './demo-agents.ts';
import { finishErring, makeErringAgent } from './erring-agent.ts';
import { makeFamily } from './family.ts';
import { makeInboxAgents } from './inbox-agents.ts';
import { plantRun } from './many-runs.ts';
import { ServedRuns } from './served-runs.ts';

/** A view of the page. `shows`: what is in sight once it is drawn; `open`: what a person presses before that. */
export type View = { name: string; url: string; shows: string; open?(page: Page): Promise<unknown> };

const PARCELS = 'Refund the bulk return of Ada Lovelace: six parcels came back, and four of them are broken';
const ASK = 'Ada writes that order A-1001 arrived broken. Pay back what she paid, if our policy allows it.';
const REPORT = `# Findings

The market grew **12 %** in Q3. Three things stood out:

1. *Prices* fell by 4 %, most of all in \`EMEA\`.
2. The cheapest rival left: see [the report](https://example.com/report).
3. Deliveries take two days longer.

| region | growth | orders | returns | margin | remarks |
| --- | --- | --- | --- | --- | --- |
| EMEA | 14 % | 12,204 | 310 | 0.31 | two suppliers are late, one has left |
| APAC | 9 % | 8,020 | 122 | 0.28 | the exchange rate hides a loss |

\`\`\`ts
const growth = orders.map(({ now, before }) => (now - before) / before).reduce((sum, one) => sum + one, 0);
\`\`\``;
const TURN = { text: REPORT, usage: { inputTokens: 6_100, outputTokens: 410, cachedInputTokens: 4_000 } };

const search = tool({
  name: 'search',
  description:
    'Searches the reports of the last four quarters, and returns the three best with their addresses.',
  input: z.object({ q: z.string() }),
  sideEffect: 'none',
  run: ({ q }) =>
    [1, 2, 3].map(rank => ({ rank, title: `About ${q}`, url: `https://example.com/${q}/${rank}` })),
});

function makeAnalyst(store: Store): Agent {
  const turns = [
    {
      text: 'I search five sources at once.',
      ...calls(['search', { q: 'prices' }], ['search', { q: 'rivals' }]),
    },
    TURN,
    TURN,
  ].map(turn => ({ usage: { inputTokens: 1_800, outputTokens: 220 }, ...turn }));
  return createAgent({
    name: 'market-analyst',
    description: 'Reads reports and says what changed.',
    instructions: REPORT,
    store,
    tools: [search],
    model: { ...scripted(turns), model: 'stub-large' },
    prices: { 'stub-large': { input: 3, output: 15 } },
  });
}

async function noteTexts(store: Store): Promise<string> {
  const text = `# Orders\n\n- A-1001 arrived broken\n- ${'prefers tea '.repeat(60)}`;
  const model = scripted([
    calls(
      ['memory', { command: 'create', path: '/memories/orders.md', file_text: text }],
      ['memory', { command: 'create', path: '/memories/likes.md', file_text: 'Likes tea.' }],
    ),
    { text: 'Noted.' },
  ]);
  const desk = createAgent({ name: 'desk', model, tools: [notes({ by: 'user' })], store });
  await desk.run('I prefer tea, and order A-1001 arrived broken.', { labels: { user: '7' } });
  return (await store.list({ agent: 'notes' })).runs[0]?.runId ?? '';
}

const said = (text: string, role: 'user' | 'developer' | 'assistant' = 'user'): Item => ({
  type: 'message',
  role,
  content: [{ type: 'text', text }],
});

const HISTORY: Item[] = [
  said('You are a coding agent.', 'developer'),
  said('Fix the parser'),
  { type: 'reasoning', text: 'I should look at the file first.' },
  { type: 'tool_call', callId: 'c1', name: 'shell', arguments: '{"command":"cat parse.ts"}' },
  {
    type: 'tool_result',
    callId: 'c1',
    output: 'export const parse = () => null;\n'.repeat(20),
    isError: false,
  },
  { type: 'tool_call', callId: 'c2', name: 'apply_patch', arguments: '{"patch":"*** Begin Patch"}' },
  { type: 'tool_result', callId: 'c2', output: 'no such file', isError: true },
  said('The parser is **fixed**.', 'assistant'),
  said('Now the printer'),
];

const STATUSES = ['finished', 'finished', 'finished', 'failed', 'cancelled'] as const;
const TITLES = [
  'Measure area 14 north of the river, and compare it with the survey of last spring',
  'Who is late?',
  'Refund order R-1013, it came twice',
  'Scout suppliers: what do they charge?',
];

async function plantHistory(store: Store): Promise<void> {
  for (let index = 0; index < 40; index += 1) {
    const status = STATUSES[index % STATUSES.length] ?? 'finished';
    await plantRun(store, `run_past_${index}`, {
      title: TITLES[index % TITLES.length] ?? '',
      agent: ['survey', 'scout', 'refunds'][index % 3] ?? '',
      status,
      at: Date.now() - index * 2_400_000,
      turns: 1 + (index % 7),
      tokens: 900 * (index + 1),
      cost: 0.004 * (index + 1),
      activeMs: 700 * (index + 1),
      ...(index % 4 === 0 && { labels: { team: 'south', customer: 'a-long-customer-name' } }),
      ...(status === 'failed' && { errorCode: 'context-too-long' }),
    });
  }
}

/** What can be seen of one server with runs of every kind, and of one without. */
export async function serveAllViews(): Promise<{ views: View[]; close(): Promise<void> }> {
  const store = memory();
  const demo = makeDemoAgents(store).agents;
  const inbox = makeInboxAgents(store);
  const [analyst, erring] = [makeAnalyst(store), makeErringAgent(store)];
  const agents = [
    ...demo,
    analyst,
    erring,
    ...makeFamily(store, 'pay_back'),
    inbox.parcels,
    inbox.accounts,
  ].filter(agent => agent !== undefined);
  const exploreAgent: ExploreAgent = async function* () {
    const options = { maxStates: 60, never: 'refund' } as const;
    const report = explore(demo[0] ?? erring, {
      ...options,
      invariants: { 'one lookup': ({ context }) => context.toolCalls < 2 },
    });
    yield { type: 'result', report: sayReport(report) as unknown as JsonObject };
  };
  await plantHistory(store);
  const begin = async (
    name: string,
    input: string | Item[],
    options: Parameters<Agent['start']>[1] = {},
  ): Promise<Run> => {
    const agent = agents.find(one => one.name === name);
    if (agent === undefined) throw new Error(`There is no agent ${name}.`);
    const run = await agent.start(input, options);
    await run.settled();
    return run;
  };
  const session = { labels: { session: 's-1' } };
  await begin('market-analyst', HISTORY.slice(0, 2), session);
  await begin('market-analyst', HISTORY, session);
  await begin('market-analyst', 'How did the market do?', { thread: 't-1' });
  const report = await begin('market-analyst', 'And in EMEA?', { thread: 't-1' });
  const played = await playRun(erring, 'Charge A-1', makeNote(report.id, { differences: [NEW_REFUND] }));
  await playRun(erring, 'Charge A-1', makeNote(report.id, { side: 'baseline' }));
  const [noted, { runId: erred }] = [await noteTexts(store), await finishErring(erring)];
  const failed = await begin('broken', 'Say hello to the customers of the shop.');
  const family = await begin('shop', 'What about order A-1001?');
  const doubt = await begin('releases', 'Release version 2.4.0 to eu-west-1.');
  await doubt.approve('call_0_0');
  await doubt.settled();
  const lab = await begin('lab', 'How wide is the hall?');
  const accounts = await begin('accounts', 'Who is the owner of the account A-7?');
  const refund = await begin('refunds', ASK);
  const parcels = await begin('parcels', PARCELS, { labels: { team: 'south', order: 'B-2' } });
  const fork = await refund.fork({ at: 4 });
  await fork.settled();

  const makeDesk = () => createAgent({ name: 'desk', store: memory(), model: scripted([]) });
  const [api, bare, locked] = await Promise.all([
    ServedRuns.listen(agents, { exploreAgent }),
    ServedRuns.listen([makeDesk()]),
    ServedRuns.listen([makeDesk()], { token: 'a'.repeat(32) }),
  ]);
  const at = (name: string, path: string, shows: string, open?: View['open']): View => ({
    name,
    url: `${api.url}${path}`,
    shows,
    ...(open && { open }),
  });
  const press = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();
  const views = [
    at('overview', '/', '.usage-table tbody tr'),
    at('runs', '/runs', '.rows .open'),
    at('runs-columns', '/runs', '.menu-panel', page =>
      page.locator('summary', { hasText: 'Columns' }).click(),
    ),
    at('runs-new', '/runs', 'dialog.new-run', press('New run')),
    at('runs-none', '/runs?text=nothing-has-this', '.empty'),
    at('keys', '/runs', 'dialog.key-help[open]', page => page.keyboard.press('?')),
    at('inbox', '/inbox', '.inbox-row'),
    at('inbox-approval', `/inbox/${parcels.id}/call_0_4`, '.decision'),
    at('inbox-doubt', `/inbox/${doubt.id}/call_0_0`, '.decision'),
    at('inbox-result', `/inbox/${lab.id}/call_0_0`, '.decision'),
    at('inbox-gone', `/inbox/${parcels.id}/call_9_9`, '.missing, .inbox-row, .decision'),
    at('run', `/runs/${report.id}`, '.reply .markdown'),
    at('run-waiting', `/runs/${parcels.id}`, '.decision-bar .decision'),
    at('run-doubt', `/runs/${doubt.id}`, '.decision-bar .decision'),
    at('run-sign-in', `/runs/${accounts.id}`, '.decision-bar'),
    at('run-edit', `/runs/${refund.id}`, '.decision-bar textarea, .decision-bar form input', press('Edit…')),
    at('run-find', `/runs/${erred}`, '.find output', async page => {
      await page.locator('.tab-panel > *').first().waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('charge');
    }),
    at('run-failed', `/runs/${failed.id}`, '.error-block'),
    at('run-errors', `/runs/${erred}`, '.error-block'),
    at('run-fork', `/runs/${fork.id}`, '.lineage a'),
    ...['waterfall', 'journal', 'ahead'].map(tab =>
      at(`run-${tab}`, `/runs/${erred}?tab=${tab}`, '.tab-panel > *'),
    ),
    ...['sequence', 'tree'].map(tab => at(`run-${tab}`, `/runs/${family.id}?tab=${tab}`, '.tab-panel > *')),
    at('run-chart', `/runs/${erred}?tab=chart`, '.sketch'),
    at('run-full-chart', `/runs/${erred}?tab=chart`, 'dialog.full-chart .drawing', press('Full chart')),
    at('run-missing', '/runs/run_none', '.missing'),
    at('compare', `/compare/${refund.id}..${fork.id}`, '.aligned-row'),
    at('compare-played', `/compare/${report.id}..${played}?difference=1`, '.aligned-row'),
    at('thread', '/threads/t-1', '.blocks .reply'),
    at('session', '/sessions/s-1', '.blocks .reply'),
    at('session-none', '/sessions/none', '.empty'),
    at('agents', '/agents', '.card'),
    at('agent', '/agents/refunds', '.card'),
    at('example', '/agents/refunds', '.example-bar', async page => {
      await press('Explore')(page);
      await press(/^Play \d+/)(page);
    }),
    at('regressions', '/regressions', '.runs .row'),
    at('notes', `/runs/${noted}`, 'main .markdown'),
    at('unknown', '/compare/one-run', '.missing'),
    { name: 'empty-overview', url: `${bare.url}/`, shows: '.welcome' },
    ...['runs', 'inbox', 'regressions'].map(name => ({
      name: `empty-${name}`,
      url: `${bare.url}/${name}`,
      shows: '.empty',
    })),
    { name: 'sign-in', url: locked.url, shows: '.sign-in' },
  ];
  const close = async () => {
    await Promise.all([api, bare, locked].map(one => one.close()));
  };
  return { views, close };
}
