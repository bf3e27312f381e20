import { readFileSync } from 'node:fs';
import { exitCodeOfError } from '../../../cli/exit-codes.ts';
import {
  type AnswerErrorCode,
  ENGINE_ERRORS,
  EngineError,
  type EngineErrorCode,
} from '../../../protocol/error.ts';
import { ApiError, describeError } from '../../../server/error-envelope.ts';
import { ERROR_ADVICE, type ServerErrorCode } from './error-advice.ts';

type Code = keyof typeof ERROR_ADVICE;

const OF_ANSWERS: Readonly<Record<AnswerErrorCode, true>> = {
  'output-invalid': true,
  'answer-blocked': true,
};
/** A code of the server that providers have too. */
const OF_PROVIDERS: readonly Code[] = ['not-found'];

const isOfEngine = (code: Code): code is EngineErrorCode => Object.hasOwn(ENGINE_ERRORS, code);
const isOfServer = (code: Code): code is ServerErrorCode =>
  'meaning' in ERROR_ADVICE[code] && !Object.hasOwn(OF_ANSWERS, code);

/** The codes that only the server has. */
export function serverErrors(): { code: ServerErrorCode; status: number; meaning: string }[] {
  const codes = Object.keys(ERROR_ADVICE) as Code[];
  return codes
    .filter(isOfServer)
    .map(code => ({ code, status: statusOf(code), meaning: ERROR_ADVICE[code].meaning }));
}

/** The pages of docs/errors by path, one for each code. */
export function errorPages(): ReadonlyMap<string, string> {
  const codes = Object.keys(ERROR_ADVICE) as Code[];
  return new Map(
    codes.map(code => {
      const { causes, todo, see } = ERROR_ADVICE[code];
      const parts = [
        `# ${code}`,
        `${capitalize(meaningOf(code))}.`,
        '## Likely causes',
        causes,
        '## What to do',
        todo,
        `More: [${titleOf(see)}](../${see}).`,
        '## Where it appears',
        describePlaces(code),
        '[All codes](../guide/errors.md)',
      ];
      return [`errors/${code}.md`, `${parts.join('\n\n')}\n`] as const;
    }),
  );
}

function meaningOf(code: Code): string {
  if (isOfEngine(code)) return ENGINE_ERRORS[code];
  const advice = ERROR_ADVICE[code];
  return 'meaning' in advice ? advice.meaning : 'a call of a model failed';
}

const IN_RUNS =
  'As `settled.error.code` of a failed run, after the retries and fallbacks of the agent, and as `code` of a `ProviderError` outside of runs.';

function describePlaces(code: Code): string {
  if (Object.hasOwn(OF_ANSWERS, code)) return 'As `settled.error.code` of a failed run.';
  if (!isOfEngine(code) && !isOfServer(code)) return IN_RUNS;
  const table = [
    '| place | form |',
    '| --- | --- |',
    ...(isOfEngine(code)
      ? ['| in code | `code` of an `EngineError`, or of a command that is not accepted |']
      : []),
    `| over HTTP | status ${statusOf(code)}, \`{ "error": { "code": "${code}", … } }\` |`,
    ...(isOfEngine(code) ? [`| command line | exit code ${exitCodeOfError(code)} |`] : []),
  ].join('\n');
  return OF_PROVIDERS.includes(code) ? `${table}\n\n${IN_RUNS}` : table;
}

function statusOf(code: EngineErrorCode | ServerErrorCode): number {
  return describeError(isOfEngine(code) ? new EngineError(code, '') : new ApiError(code, '')).status;
}

function capitalize(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

function titleOf(page: string): string {
  const text = readFileSync(new URL(`../../../docs/${page.replace(/#.*/, '')}`, import.meta.url), 'utf8');
  return /^# (.+)$/m.exec(text)?.[1] ?? page;
}
