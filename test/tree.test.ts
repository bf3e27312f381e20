import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

/** What may be in the repository: the kinds of files of each room, and their sizes. */

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const SOURCES = ['.ts'];

/** The kinds of files of each top-level folder; of the root, the names of the files. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  '.ci': ['run'],
  access: SOURCES,
  adapters: SOURCES,
  agent: SOURCES,
  bench: [...SOURCES, '.js', '.json'],
  cli: SOURCES,
  deploy: ['.js', '.yaml', 'Dockerfile'],
  docs: ['.md', '.json', '.svg', '.png', '.webp'],
  engine: SOURCES,
  explore: SOURCES,
  examples: [...SOURCES, '.tsx', '.jsx', '.js', '.css', '.csv', '.html', '.json', '.md'],
  fronts: [...SOURCES, '.tsx'],
  hosts: SOURCES,
  machines: SOURCES,
  protocol: SOURCES,
  runner: SOURCES,
  server: SOURCES,
  stores: SOURCES,
  testing: SOURCES,
  test: [...SOURCES, '.json', '.mjs', '.proto', '.sql', '.txt'],
  text: SOURCES,
  tools: SOURCES,
  visualizer: [...SOURCES, '.tsx', '.css', '.html', '.svg', '.json'],
};

const AT_ROOT: readonly string[] = [
  '.dockerignore',
  '.editorconfig',
  '.gitignore',
  '.nvmrc',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'biome.json',
  'build.ts',
  'knip.json',
  'package-lock.json',
  'package.json',
  'tsconfig.build.json',
  'tsconfig.json',
  'vitest.config.ts',
];

/** The largest files, in bytes, by kind; of other kinds 64 KiB. */
const MOST: Readonly<Record<string, number>> = {
  '.webp': 700_000,
  '.png': 250_000,
  '.json': 260_000,
  '.md': 120_000,
};

const files = existsSync(join(ROOT, '.git'))
  ? execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
      .split('\n')
      .filter(file => file !== '' && existsSync(join(ROOT, file)))
  : [];

test.runIf(files.length > 0)('each file is of a kind that its folder is for', () => {
  const odd = files.filter(file => {
    const [room = '', ...rest] = file.split('/');
    if (rest.length === 0) return !AT_ROOT.includes(file);
    const name = rest.at(-1) ?? '';
    return !(KINDS[room] ?? []).includes(extname(name) || name);
  });
  expect(odd).toEqual([]);
});

test.runIf(files.length > 0)('no file is larger than its kind needs', () => {
  const large = files.filter(file => statSync(join(ROOT, file)).size > (MOST[extname(file)] ?? 65_536));
  expect(large).toEqual([]);
});

const DECLARED = /^(export )?(?:async )?(?:function\*?|const|let|class|interface|type|enum) (\w+)/gm;

/** The names that a file declares and exports, once each: a type and a value can have the same name. */
function listExports(file: string): ReadonlySet<string> {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const listed = [...text.matchAll(/^export (?:type )?\{([^}]*)\};/gm)].flatMap(
    ([, list = '']) => list.match(/\w+/g) ?? [],
  );
  return new Set(
    [...text.matchAll(DECLARED)].flatMap(([, exported, name = '']) =>
      exported === undefined && !listed.includes(name) ? [] : [name],
    ),
  );
}

/** Temporary: names with two meanings, and where. */
const AMBIGUOUS: Readonly<Record<string, readonly string[]>> = {
  Answer: [
    'adapters/conformance/replay.ts',
    'protocol/open/answer.ts',
    'server/gateway/answer/answer.ts',
    'server/route.ts',
  ],
  AnswerOf: ['agent/as-tool.ts', 'engine/run/known-commands.ts'],
  ChartState: ['machines/agent.ts', 'visualizer/chart-graph.ts'],
  Connection: [
    'adapters/http/connection.ts',
    'stores/sqlite/connection.ts',
    'visualizer/page/model/run-model.ts',
  ],
  DEFAULT_LIMITS: ['protocol/config.ts', 'server/access/access-config.ts'],
  Deliveries: ['hosts/restate/drive-run.ts', 'hosts/restate/restate-store.ts'],
  Edge: ['machines/compiled/compile.ts', 'machines/step.ts'],
  Exploration: ['explore/explore.ts', 'visualizer/page/ahead/explorer.tsx'],
  Explorer: ['explore/explorer.ts', 'visualizer/page/ahead/explorer.tsx'],
  Gate: ['explore/describe-agent.ts', 'server/access/gate.ts'],
  Given: ['machines/compiled/compile-action.ts', 'protocol/json.ts'],
  Labels: ['protocol/listing/label.ts', 'server/metrics/prometheus.ts'],
  Launch: ['cli/launch.ts', 'server/runs/served-agents.ts'],
  Lease: ['engine/driver/lease.ts', 'stores/lease.ts'],
  MessageWriter: ['fronts/ai-sdk-ui/write-messages.ts', 'server/messages/message-writer.ts'],
  Moment: ['engine/host/host.ts', 'explore/invariant.ts'],
  Notice: ['agent/listening/webhook.ts', 'protocol/effect.ts', 'visualizer/page/model/status-notices.ts'],
  OpenOptions: ['adapters/conformance/call.ts', 'agent/agent.ts'],
  Opened: ['cli/store.ts', 'server/runs/run-registry.ts'],
  Outcome: [
    'adapters/conformance/call.ts',
    'engine/replay/describe-outcome.ts',
    'engine/services/call-run.ts',
    'visualizer/page/data/send-command.ts',
  ],
  POLL_MS: ['engine/host/host.ts', 'fronts/mcp/tasks.ts'],
  PROVIDER: [
    'adapters/anthropic/messages.ts',
    'adapters/gemini/request.ts',
    'adapters/harmony/render.ts',
    'adapters/vllm/render.ts',
  ],
  PageAssets: ['server/page-assets.ts', 'visualizer/page-assets.ts'],
  Part: ['fronts/a2a/wire.ts', 'protocol/item.ts'],
  PathEntry: ['explore/explorer.ts', 'visualizer/page/ahead/explorer.tsx'],
  Place: [
    'engine/journal/redaction/redact-run.ts',
    'engine/story/story-event.ts',
    'explore/explorer.ts',
    'fronts/a2a/wire.ts',
    'machines/compiled/compile.ts',
  ],
  Plan: ['fronts/ag-ui/stream-run.ts', 'server/gateway/plan/plan-request.ts'],
  Play: ['adapters/conformance/call.ts', 'visualizer/page/ahead/explorer.tsx'],
  Problem: ['engine/replay/replay-journal.ts', 'visualizer/page/ui/text.tsx'],
  Recording: ['engine/replay/record-run.ts', 'engine/replay/replay-journal.ts'],
  Refusal: ['engine/log/refusal.ts', 'machines/compiled/compile-action.ts'],
  Report: ['engine/services/service.ts', 'visualizer/page/ahead/explorer.tsx'],
  RequestRecord: ['engine/log/request-ids.ts', 'server/access/request-record.ts'],
  Route: ['engine/run/call-router.ts', 'server/route.ts', 'visualizer/page/app/router.ts'],
  RunList: ['protocol/store.ts', 'visualizer/page/views/run-list.ts'],
  RunView: ['protocol/run-view.ts', 'visualizer/page/run/run-view.tsx'],
  Session: ['server/access/sessions.ts', 'tools/mcp/session.ts'],
  Source: ['protocol/store.ts', 'text/citations.ts', 'visualizer/page/data/source.ts'],
  Span: [
    'adapters/gemini/request.ts',
    'engine/journal/read-journal.ts',
    'server/gateway/runs/response-library.ts',
    'visualizer/page/model/time-line.ts',
  ],
  Watcher: ['explore/explorer.ts', 'hosts/restate/requests.ts'],
  addSpent: ['explore/reference-model.ts', 'machines/limits.ts'],
  addUsage: ['fronts/otel/attributes.ts', 'machines/limits.ts'],
  beginRun: ['machines/compiled/macrostep.ts', 'server/runs/run-routes.ts'],
  callerOf: ['access/caller.ts', 'fronts/mcp/client.ts'],
  commandOf: ['engine/run/known-commands.ts', 'fronts/ag-ui/interrupts.ts'],
  content: ['protocol/content/content.ts', 'protocol/schemas/content.ts'],
  countRuns: ['engine/listening/feed-follower.ts', 'stores/postgres/runs.ts'],
  createChatApi: ['fronts/ai-sdk-ui/chat/chat-handler.ts', 'server/chat-completions/chat-api.ts'],
  cutText: ['text/cut-text.ts', 'visualizer/page/render/format.ts'],
  decide: ['fronts/mcp/ask.ts', 'machines/entry-actions.ts'],
  deleteRun: ['cli/commands/data.ts', 'hosts/restate/remove-runs.ts'],
  describeCall: ['fronts/served/open-calls.ts', 'visualizer/page/render/describe-call.ts'],
  describeDatabase: ['stores/postgres/database.ts', 'stores/sqlite/open-database.ts'],
  describeEvent: [
    'cli/render/format.ts',
    'visualizer/describe-event.ts',
    'visualizer/page/render/describe-event.ts',
  ],
  describeFailedTurn: ['cli/render/format.ts', 'visualizer/describe-event.ts'],
  describeFailure: ['cli/exit-codes.ts', 'server/messages/message-error.ts'],
  describeStart: ['stores/run-record.ts', 'visualizer/describe-exploration.ts'],
  describeTurn: ['cli/render/format.ts', 'runner/runner-turn.ts', 'visualizer/describe-event.ts'],
  findNonJson: ['engine/services/read-output.ts', 'explore/built-in-invariants.ts'],
  findRuns: ['stores/postgres/runs.ts', 'stores/sqlite/runs.ts'],
  followRun: ['server/runs/live/event-stream.ts', 'visualizer/page/data/follow-run.ts'],
  fork: ['cli/commands/fork.ts', 'server/runs/commands/fork-route.ts'],
  formatClock: ['cli/render/format.ts', 'visualizer/page/render/format.ts'],
  formatSpan: ['cli/render/format.ts', 'visualizer/page/render/format.ts'],
  formatValue: ['cli/render/format.ts', 'visualizer/page/render/format.ts'],
  growingMessages: ['adapters/chat/messages.ts', 'adapters/ollama/messages.ts'],
  inputOf: ['adapters/responses/input.ts', 'server/gateway/runs/response-library.ts'],
  insertRun: ['stores/postgres/appends.ts', 'stores/sqlite/runs.ts'],
  isAnswered: ['machines/decide-next-action.ts', 'server/gateway/runs/response-spec.ts'],
  itemsOf: ['engine/log/command.ts', 'fronts/ag-ui/read-messages.ts'],
  keyOf: [
    'adapters/responses/input.ts',
    'visualizer/page/inbox/inbox-model.ts',
    'visualizer/page/run/decisions/open-decisions.ts',
  ],
  locateRun: ['stores/postgres/runs.ts', 'stores/sqlite/runs.ts'],
  makeOwner: ['engine/host/owner.ts', 'stores/conformance/check.ts'],
  makeServices: ['engine/services/make-services.ts', 'hosts/restate/services.ts'],
  mcp: ['cli/commands/mcp.ts', 'tools/mcp.ts'],
  migrate: ['cli/commands/migrate.ts', 'stores/postgres/schema.ts'],
  offeredTools: ['adapters/turn/tool-calls.ts', 'engine/replay/record-run.ts'],
  oneByOne: ['adapters/conformance/replay.ts', 'engine/story/family-story.ts'],
  outputOf: ['fronts/ag-ui/read-messages.ts', 'server/gateway/request/gateway-request.ts'],
  readBytes: ['stores/postgres/runs.ts', 'stores/sqlite/runs.ts'],
  readEntries: ['server/runs/reading/journal-routes.ts', 'stores/sqlite/journal.ts'],
  readJson: ['engine/log/command.ts', 'visualizer/page/ui/draft-field.tsx'],
  recordOf: ['server/gateway/request/gateway-request.ts', 'stores/postgres/runs.ts'],
  redactText: ['adapters/http/redact-secrets.ts', 'tools/mcp/redact-secrets.ts'],
  refuseUnknownOptions: ['fronts/react/run-snapshot.ts', 'protocol/options/refuse-unknown.ts'],
  request: ['stores/conformance/check.ts', 'visualizer/page/data/request.ts'],
  requestOf: ['adapters/conformance/call.ts', 'engine/log/request-ids.ts'],
  resultOf: ['fronts/mcp/tool-result.ts', 'machines/calls.ts'],
  settle: ['explore/reference-model.ts', 'fronts/mcp/follow-run.ts', 'stores/conformance/check.ts'],
  shorten: ['adapters/turn/json-access.ts', 'cli/render/format.ts', 'visualizer/page/render/format.ts'],
  showSafely: ['cli/render/format.ts', 'visualizer/page/render/format.ts'],
  showText: ['adapters/http/redact-secrets.ts', 'tools/mcp/redact-secrets.ts'],
  signed: ['adapters/gemini/request.ts', 'server/runs/commands/command-routes.ts'],
  stamp: ['engine/events/run-events.ts', 'explore/make-events.ts'],
  standingOf: ['engine/journal/load-run.ts', 'engine/replay/export-run.ts'],
  writeBlob: ['stores/postgres/runs.ts', 'stores/sqlite/runs.ts'],
};

test.runIf(files.length > 0)('exported names are unique', () => {
  const sources = files.filter(file => /\.tsx?$/.test(file) && !/^(test|bench|examples)\//.test(file));
  const exported = sources.flatMap(file => [...listExports(file)].map(name => ({ name, file })));
  const places = Map.groupBy(exported, ({ name }) => name);
  const shared = [...places].filter(([name, { length }]) => length > 1 && !Object.hasOwn(AMBIGUOUS, name));
  expect(shared.map(([name, found]) => [name, ...found.map(({ file }) => file)])).toEqual([]);
});
