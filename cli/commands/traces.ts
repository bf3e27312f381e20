import { sleep, systemHost } from '../../engine/host/host.ts';
import { postSpans, tracesUrl } from '../../fronts/otel/otlp.ts';
import type { RunSpan } from '../../fronts/otel/run-span.ts';
import { traceRun } from '../../fronts/otel/trace-run.ts';
import { EngineError, messageOf } from '../../protocol/error.ts';
import { EXIT } from '../exit-codes.ts';
import { readVersion, type StoreOptions } from '../options.ts';
import { showSafely } from '../render/format.ts';
import { dim, type Output } from '../render/output.ts';
import { withRun } from '../store.ts';

type TracesOptions = StoreOptions & { otlp?: string; content?: boolean };

/**
 * Implements `agentchart traces`: posts the spans of a run and of its sub-agents' runs to a receiver, or prints them
 * without `otlp`. The same run gives the same ids every time. Returns 1 if the receiver does not take them.
 */
export async function traces(id: string, options: TracesOptions): Promise<number> {
  if (options.otlp !== undefined) checkUrl(options.otlp);
  return await withRun(id, options, async ({ store, output, record: { runId } }) => {
    const spans = traceRun(store, runId, { content: options.content === true });
    if (options.otlp === undefined) return await print(spans, output);
    try {
      const count = await postSpans(spans, {
        url: options.otlp,
        headers: readHeaders(process.env.OTEL_EXPORTER_OTLP_HEADERS),
        service: process.env.OTEL_SERVICE_NAME || 'agentchart',
        version: readVersion(),
        sleep: ms => sleep(systemHost, ms),
      });
      const url = tracesUrl(options.otlp);
      if (output.json) output.data({ runId, spans: count, url });
      else output.line(`Sent ${count} spans of ${runId} to ${url}`);
      return EXIT.done;
    } catch (error) {
      if (error instanceof EngineError) throw error;
      output.problem(messageOf(error));
      return EXIT.failed;
    }
  });
}

async function print(spans: AsyncIterable<RunSpan>, output: Output): Promise<number> {
  for await (const span of spans) {
    if (output.json) output.data(span);
    else {
      const ms = `${Math.round(span.end - span.start)} ms`.padStart(12);
      const failed = span.error === undefined ? '' : `  ${showSafely(span.error)}`;
      output.line(dim(`${span.spanId} ${ms}  `), showSafely(span.name), failed);
    }
  }
  return EXIT.done;
}

function checkUrl(url: string): void {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return;
  throw new EngineError(
    'input-invalid',
    `--otlp expects the address of an OTLP receiver over HTTP, such as http://localhost:4318; got "${url}".`,
  );
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
