import { readFileSync } from 'node:fs';
import { exitCodeOfError } from '../../../cli/exit-codes.ts';
import { ENGINE_ERRORS, EngineError, type EngineErrorCode } from '../../../protocol/error.ts';
import { describeError } from '../../../server/error-envelope.ts';
import { ERROR_ADVICE } from './error-advice.ts';

const isOfEngine = (code: string): code is EngineErrorCode => Object.hasOwn(ENGINE_ERRORS, code);

/** The pages of docs/errors by path, one for each code. */
export function errorPages(): ReadonlyMap<string, string> {
  return new Map(
    Object.entries(ERROR_ADVICE).map(([code, { causes, todo, see }]) => {
      const parts = [
        `# ${code}`,
        isOfEngine(code) ? `${capitalize(ENGINE_ERRORS[code])}.` : 'A call of a model failed.',
        '## Likely causes',
        causes,
        '## What to do',
        todo,
        `More: [${titleOf(see)}](../${see}).`,
        '## Where it appears',
        isOfEngine(code) ? describePlaces(code) : IN_RUNS,
        '[All codes](../guide/errors.md)',
      ];
      return [`errors/${code}.md`, `${parts.join('\n\n')}\n`] as const;
    }),
  );
}

const IN_RUNS =
  'As `settled.error.code` of a failed run, after the retries and fallbacks of the agent, and as `code` of a `ProviderError` outside of runs.';

function describePlaces(code: EngineErrorCode): string {
  const { status } = describeError(new EngineError(code, ''));
  return [
    '| place | form |',
    '| --- | --- |',
    '| in code | `code` of an `EngineError`, or of a command that is not accepted |',
    `| over HTTP | status ${status}, \`{ "error": { "code": "${code}", … } }\` |`,
    `| command line | exit code ${exitCodeOfError(code)} |`,
  ].join('\n');
}

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

function titleOf(page: string): string {
  const text = readFileSync(new URL(`../../../docs/${page.replace(/#.*/, '')}`, import.meta.url), 'utf8');
  return /^# (.+)$/m.exec(text)?.[1] ?? page;
}
