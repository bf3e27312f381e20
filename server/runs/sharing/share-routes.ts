// server/runs/sharing: exports, and a run as one HTML file without a server.

import type { Context } from 'hono';
import * as z from 'zod';
import { stampEvent } from '../../../engine/events/run-events.ts';
import { streamedBody } from '../../../engine/events/streamed-body.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { readFromStart, type WholeJournal } from '../../../engine/journal/read-journal.ts';
import { redactContents } from '../../../engine/journal/redaction/redact-contents.ts';
import { exportBlobs, exportRun } from '../../../engine/replay/export-run.ts';

import type { JournalEntry } from '../../../protocol/event.ts';
import { titleOf } from '../../../protocol/listing/label.ts';
import type { RunRecord } from '../../../protocol/store.ts';
import { memory } from '../../../stores/memory.ts';
import { ApiError } from '../../error-envelope.ts';
import { fields } from '../../fields.ts';
import { policyHash } from '../../guard-request.ts';
import { type PageAssets, styleOf } from '../../page-assets.ts';
import type { RunsEnv } from '../../runs-env.ts';
import type { RouteParts } from '../route-parts.ts';
import { viewRun } from '../run-view.ts';

/** The size limits of journals: for sharing, and for an export as a test. */
const MOST_ENTRIES = 50_000;

export const exportQuery = fields({
  as: z
    .enum(['run', 'test'])
    .default('run')
    .meta({ description: 'run: as `agentchart export`. test: a vitest file that replays it.' }),
});

export const shareQuery = fields({
  contents: z.enum(['redacted', 'shown']).default('redacted').meta({
    description: 'redacted: texts, inputs, outputs, names and labels are replaced by their digests.',
  }),
});

export async function sendExport(
  c: Context<RunsEnv>,
  { runId, seq }: RunRecord,
  query: z.output<typeof exportQuery>,
  { store, exportTest, log }: RouteParts,
): Promise<Response> {
  if (query.as === 'test') {
    if (exportTest === undefined)
      throw new ApiError('not-found', 'This server does not export runs as tests.');
    assertShort(seq);
    return c.body(await exportTest(store, runId), 200, attachment('text/plain', `${runId}.test.ts`));
  }
  const exported = await exportRun(store, runId);
  const body = streamedBody(exportBlobs(store, exported), {
    begin: lineOf(exported),
    frame: lineOf,
    failed(error) {
      log(`The export of run ${runId} broke off: ${String(error)}`);
      throw error;
    },
  });
  return c.body(body, 200, attachment('application/x-ndjson', `${runId}.json`));
}

function lineOf(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

export async function sendShared(
  c: Context<RunsEnv>,
  record: RunRecord,
  { contents }: z.output<typeof shareQuery>,
  { store, host, assets }: RouteParts,
): Promise<Response> {
  if (assets === undefined) throw new ApiError('not-found', 'This server has no page to share a run with.');
  assertShort(record.seq);
  const journal = await readFromStart(store, record.runId, 'Share');
  const copy = contents === 'shown' ? journal : redactContents(journal);
  const [first, ...rest] = copy.map(withoutLaunch) as WholeJournal;
  let state = beginFold(first.event);
  for (const entry of rest) state = foldEntry(state, entry, record.runId);
  const { labels = {} } = first.event;
  // An empty store, so that a share has no content of other runs, such as the open calls of sub-agents' runs.
  const shown: RunRecord = { ...withoutLease(record), title: titleOf(first.event), labels };
  const last = rest.at(-1)?.seq ?? first.seq;
  const options = { store: memory(), host, availableAgent: false, showText };
  const view = await viewRun(shown, { state, seq: last }, options);
  const entries = [first, ...rest].map(entry => stampEvent(entry, record.runId));
  const document = makeShareDocument(assets, { view, entries });
  return c.body(document, 200, attachment('text/html', `${record.runId}.html`));
}

const showText = (text: string) => text;

function withoutLease({ owner: _, leaseUntil: __, ...record }: RunRecord): RunRecord {
  return record;
}

function withoutLaunch({ seq, event }: JournalEntry): JournalEntry {
  if (event.type !== 'run.started') return { seq, event };
  const { launch: _, ...started } = event;
  return { seq, event: started };
}

function assertShort(seq: number): void {
  if (seq <= MOST_ENTRIES) return;
  throw new ApiError(
    'too-large',
    `The run has ${seq} entries; at most ${MOST_ENTRIES} are possible here. Use agentchart export.`,
  );
}

/** The browser does not display the file as a page of this server. */
function attachment(type: string, name: string): Record<string, string> {
  const safe = name.replaceAll(/[^\w.-]/g, '_').slice(-120);
  return {
    'Content-Type': `${type}; charset=utf-8`,
    'Content-Disposition': `attachment; filename="${safe}"`,
  };
}

/** Its content security policy allows only this script and style, and loads nothing. Throws `not-found` without the page's files. */
function makeShareDocument(assets: PageAssets, run: object): string {
  const script = textOf(assets, '/assets/offline.js').replaceAll(/<(\/script|!--)/gi, '\\x3c$1');
  const css = styleOf(assets.html) + textOf(assets, '/assets/page.css');
  const style = css.replaceAll(/<\/style/gi, '<\\/style');
  const policy = [
    "default-src 'none'",
    `script-src '${policyHash(script)}'`,
    `style-src '${policyHash(style)}'`,
    'img-src data: blob:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const icon = assets.find('/assets/icon.svg');
  const image = icon && `data:image/svg+xml;base64,${Buffer.from(icon.body).toString('base64')}`;
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="${policy}" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <meta name="referrer" content="no-referrer" />
    <title>A run of Agentchart</title>
    ${image === undefined ? '' : `<link rel="icon" href="${image}" type="image/svg+xml" />`}
    <style>${style}</style>
  </head>
  <body>
    <div id="page"><noscript>This page requires JavaScript.</noscript></div>
    <script type="application/json" id="run">${embedJson(run)}</script>
    <script>${script}</script>
  </body>
</html>
`;
}

/** Returns JSON without `<`, so that it cannot end the element around it or begin a comment. */
function embedJson(value: object): string {
  return JSON.stringify(value)
    .replaceAll('<', '\\u003c')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029');
}

function textOf(assets: PageAssets, path: string): string {
  const asset = assets.find(path);
  if (asset === undefined) throw new ApiError('not-found', 'This server has no page to share a run with.');
  return Buffer.from(asset.body).toString();
}
