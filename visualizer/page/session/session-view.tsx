// visualizer/page/session: the runs of a coding agent's session as one conversation.

import { useSignal } from '@preact/signals';
import type { Context } from '../../../machines/context.ts';
import type {
  Item,
  MessageItem,
  ProviderItem,
  ToolCallItem,
  ToolResultItem,
} from '../../../protocol/item.ts';
import type { JsonValue } from '../../../protocol/json.ts';
import { formatCost } from '../../../protocol/listing/cost.ts';
import { formatDuration } from '../../../protocol/listing/format-duration.ts';
import { formatNumber } from '../../../protocol/listing/format-number.ts';
import { isAdded } from '../../../protocol/listing/words-of-user.ts';
import { textOf } from '../../../protocol/message.ts';
import { useTitle } from '../app/router.ts';
import { type RunSummary, type RunView, requestServer, runPath } from '../data/request.ts';
import { readListPages, useNews, useRead } from '../data/server-watch.ts';
import type { PageSource } from '../data/source.ts';
import { formatCount, formatJson, formatMoment, joinFacts, showSafe } from '../render/format.ts';
import { Button, StatusBadge } from '../ui/button.tsx';
import { Markdown } from '../ui/markdown.tsx';
import { MediaParts } from '../ui/picture.tsx';
import { type Fact, Facts, FoldedText, LongText, ProblemText, Safe } from '../ui/text.tsx';
import { FoldedValue } from '../ui/value.tsx';

const PAGES = 10;
const PAGE = 200;
const SHOWN = 60;

export function SessionView({ source, id }: { source: PageSource; id: string }) {
  const { answer, problem, again } = useRead(() => readSession(source, id), [id]);
  useNews(source, ['ready', 'summary', 'removed'], again);
  const { runs = [], sides = [], copied = [], shown = null } = answer ?? {};
  const title = runs.at(-1)?.title || id;
  useTitle(showSafe(title));
  const newest = runs[0];
  return (
    <main class="session">
      <p>
        <a href="/runs">Runs</a> {' · '}
        <a href={`/runs?label=${encodeURIComponent(`session=${id}`)}`}>Only the runs of this session</a>
      </p>
      <h1 tabIndex={-1}>
        <Safe text={title} /> {newest && <StatusBadge status={newest.status} />}
      </h1>
      <ProblemText text={problem} />
      {answer !== null && newest === undefined && <p class="empty">There is no run of this session here.</p>}
      {newest && <Facts class="facts" of={listFacts([...runs, ...sides], copied, shown)} />}
      {shown && <Conversation key={id} items={shown.transcript} />}
      {runs.length > 0 && <RunLinks title="Runs" runs={runs} />}
      {sides.length > 0 && <RunLinks title="Sub-agents and side tasks" runs={sides} />}
    </main>
  );
}

/** Newest first. `sides` are not part of the conversation, unless there is nothing else. */
async function readSession(source: PageSource, id: string) {
  const query = new URLSearchParams({ limit: `${PAGE}`, label: `session=${id}` });
  const { found } = await readListPages<'runs', RunSummary>(`/runs?${query}`, PAGES, 'runs');
  const main = found.filter(({ labels }) => labels.thread === undefined);
  const [runs, sides] = main.length === 0 ? [found, []] : [main, found.filter(run => !main.includes(run))];
  // Each request has the whole conversation, so the latest run shows it.
  const newest = runs[0];
  const shown = newest === undefined ? null : await source.view(newest.runId);
  const forks = [...runs, ...sides].flatMap(({ forkOf }) =>
    forkOf !== undefined && found.some(({ runId }) => runId === forkOf.runId) ? [forkOf] : [],
  );
  return { runs, sides, shown, copied: (await Promise.all(forks.map(readCopy))).flat() };
}

type Used = Pick<RunSummary, 'turns' | 'tokens' | 'cached' | 'cost' | 'activeMs'>;

/** What forks copied, by where it is read: it never changes. */
const copies = new Map<string, Promise<Used[]>>();

/** What a fork copied from another run of the session, which counts there; nothing if it is redacted, or of another chart. */
function readCopy({ runId, at }: NonNullable<RunSummary['forkOf']>): Promise<Used[]> {
  const path = `${runPath(runId)}/state?at=${at}`;
  const copy =
    copies.get(path) ??
    requestServer<{ state: { context: Context } }>(path).then(
      ({ state }) => [usedIn(state.context)],
      () => {
        copies.delete(path);
        return [];
      },
    );
  copies.set(path, copy);
  return copy;
}

function usedIn({ turns, usage, cost, activeMs }: Context): Used {
  const { inputTokens: of = 0, outputTokens = 0, cachedInputTokens: tokens = null } = usage ?? {};
  const cached = tokens === null ? {} : { cached: { tokens, of } };
  return { turns, tokens: of + outputTokens, cost, activeMs, ...cached };
}

/** `copied` counts in others of `all`. */
export function listFacts(all: readonly Used[], copied: readonly Used[], shown: RunView | null): Fact[] {
  const add = (runs: readonly Used[], of: (run: Used) => number) =>
    runs.reduce((total, run) => total + of(run), 0);
  const sum = (of: (run: Used) => number) => add(all, of) - add(copied, of);
  const tools = Map.groupBy(shown?.transcript.filter(isCall) ?? [], ({ name }) => name);
  const used = [...tools].map(([name, calls]) => `${name} ×${calls.length}`);
  const [cached, input] = [sum(run => run.cached?.tokens ?? 0), sum(run => run.cached?.of ?? 0)];
  const cost = sum(run => run.cost);
  return [
    ['Turns', formatNumber(sum(({ turns }) => turns))],
    used.length > 0 && ['Tools', used.join(', ')],
    ['Tokens', formatNumber(sum(({ tokens }) => tokens))],
    input > 0 && ['Input from the cache', `${Math.round((100 * cached) / input)} %`],
    cost > 0 && ['Cost', formatCost(cost)],
    ['At work', formatDuration(sum(({ activeMs }) => activeMs))],
  ];
}

const isCall = (item: Item): item is ToolCallItem => item.type === 'tool_call';

export function Conversation({ items: transcript }: { items: readonly Item[] }) {
  const more = useSignal(0);
  const results = new Map(
    transcript.flatMap(item => (item.type === 'tool_result' ? [[item.callId, item] as const] : [])),
  );
  const items = transcript.filter(({ type }) => type !== 'tool_result');
  const first = Math.max(0, items.length - SHOWN - more.value);
  return (
    <section aria-label="Conversation" class="blocks">
      {first > 0 && (
        <Button class="quiet" label={`Show earlier (${first} more)`} onClick={() => (more.value += SHOWN)} />
      )}
      {items.slice(first).map((item, at) => (
        <ItemBlock key={item.id ?? first + at} item={item} results={results} />
      ))}
    </section>
  );
}

type Results = ReadonlyMap<string, ToolResultItem>;

function ItemBlock({ item, results }: { item: Item; results: Results }) {
  switch (item.type) {
    case 'message':
      return <Message item={item} />;
    case 'reasoning':
      return <Folded summary="Reasoning" text={item.text} kind="prose" />;
    case 'tool_call':
      return <Call call={item} result={results.get(item.callId)} />;
    case 'provider_item':
      return <Folded summary={kindOf(item)} text={formatJson(item.opaque.data)} kind="mono" />;
    default:
      return null;
  }
}

function kindOf({ kind }: ProviderItem): string {
  return kind === 'setup' ? 'Tools or instructions that changed' : kind;
}

/** What the client adds to the user's words, and its instructions, are folded. */
function Message({ item }: { item: MessageItem }) {
  const { role, content } = item;
  if (role === 'system' || role === 'developer')
    return <Folded summary={`Instructions (${role})`} text={textOf(item)} kind="prose" />;
  if (role === 'assistant')
    return (
      <div class="block reply">
        <Markdown text={textOf(item)} />
      </div>
    );
  const added = content.flatMap(part => (part.type === 'text' && isAdded(part.text) ? [part.text] : []));
  const said = content.filter(part => part.type !== 'text' || !added.includes(part.text));
  return (
    <>
      {added.length > 0 && <Folded summary="Added by the client" text={added.join('\n\n')} kind="prose" />}
      {said.length > 0 && (
        <div class="block message">
          {said.map((part, at) =>
            part.type === 'text' ? (
              <LongText key={at} text={part.text} kind="prose" />
            ) : (
              <MediaParts key={at} part={part} />
            ),
          )}
        </div>
      )}
    </>
  );
}

function Folded({ summary, text, kind }: { summary: string; text: string; kind: 'prose' | 'mono' }) {
  if (text === '') return null;
  return (
    <div class="block">
      <FoldedText summary={showSafe(summary)} text={text} kind={kind} />
    </div>
  );
}

function Call({ call, result }: { call: ToolCallItem; result: ToolResultItem | undefined }) {
  const { name, arguments: written } = call;
  const status = result?.isError === true ? 'error' : 'done';
  return (
    <article
      class="call"
      data-status={result === undefined ? 'unsettled' : status}
      aria-label={`Call of ${showSafe(name)}`}
    >
      <header>
        <Safe in="h3" text={name} class="mono" />
        <span class="time" />
        <span class="badge">{result === undefined ? 'no result yet' : status}</span>
      </header>
      <FoldedValue what="input" value={readArguments(written)} path="input" />
      {result && <FoldedValue what="result" value={result.output} path="output" />}
    </article>
  );
}

function readArguments(written: string): JsonValue {
  try {
    return JSON.parse(written);
  } catch {
    return written;
  }
}

export function RunLinks({ title, runs }: { title: string; runs: readonly RunSummary[] }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <ul class="session-runs">
        {runs.map(run => (
          <li key={run.runId}>
            <StatusBadge status={run.status} />
            <a href={runPath(run.runId)}>
              <Safe text={run.title || run.runId} />
            </a>
            <span class="muted">{describeRun(run)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function describeRun({ createdAt, turns, tokens, cost, errorCode }: RunSummary): string {
  return joinFacts(
    formatMoment(createdAt),
    formatCount(turns, 'turn'),
    `${formatNumber(tokens)} tokens`,
    cost > 0 && formatCost(cost),
    errorCode ?? null,
  );
}
