import { sleep, systemHost } from '../../engine/host/host.ts';
import { postSpans, tracesUrl } from '../../fronts/otel/otlp.ts';
import type { RunSpan } from '../../fronts/otel/run-span.ts';
import { traceRun } from '../../fronts/otel/trace-run.ts';
import { EngineError, invalidInput, messageOf } from '../../protocol/error.ts';
import type { Action } from '../command-table.ts';
import { EXIT } from '../exit-codes.ts';
import { readVersion } from '../options.ts';
import { showSafely } from '../render/format.ts';
import { dim, type Output } from '../render/output.ts';
import { withRun } from '../store.ts';

/** Posts the spans of a run and its sub-agents, or prints them; always the same ids. 1 if refused. */
export const traces: Action<'traces'> = async ({ otlp, content = false, ...options }) => {
  if (otlp !== undefined && !(URL.canParse(otlp) && /^https?:$/.test(new URL(otlp).protocol)))
    throw invalidInput(
      `--otlp expects the address of an OTLP receiver over HTTP, such as http://localhost:4318; got "${otlp}".`,
    );
  return await withRun(options, async ({ store, output, record: { runId } }) => {
    const spans = traceRun(store, runId, { content });
    if (otlp === undefined) return await print(spans, output);
    try {
      const count = await postSpans(spans, {
        url: otlp,
        headers: readHeaders(process.env.OTEL_EXPORTER_OTLP_HEADERS),
        service: process.env.OTEL_SERVICE_NAME || 'agentchart',
        version: readVersion(),
        sleep: ms => sleep(systemHost, ms),
      });
      const url = tracesUrl(otlp);
      output.tell({ runId, spans: count, url }, `Sent ${count} spans of ${runId} to ${url}`);
      return EXIT.done;
    } catch (error) {
      if (error instanceof EngineError) throw error;
      output.problem(messageOf(error));
      return EXIT.failed;
    }
  });
};

async function print(spans: AsyncIterable<RunSpan>, output: Output): Promise<number> {
  for await (const span of spans) {
    const ms = `${Math.round(span.end - span.start)} ms`.padStart(12);
    const failed = span.error === undefined ? '' : `  ${showSafely(span.error)}`;
    output.tell(span, dim(`${span.spanId} ${ms}  `), showSafely(span.name), failed);
  }
  return EXIT.done;
}

/** Reads `NAME=VALUE,NAME=VALUE`, percent-encoded, as the SDKs of OpenTelemetry do. */
function readHeaders(text = ''): Record<string, string> {
  const pairs = text.split(',').flatMap(pair => {
    const at = pair.indexOf('=');
    return at < 1 ? [] : [[pair.slice(0, at).trim(), decode(pair.slice(at + 1).trim())] as const];
  });
  return Object.fromEntries(pairs);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
