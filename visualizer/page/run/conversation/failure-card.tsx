import type { Block } from '../../model/run-story.ts';
import { showSafely } from '../../render/show-safely.ts';
import { Details } from '../../ui/details.tsx';
import { LongText } from '../../ui/text.tsx';
import { useDesk } from '../desk.ts';

/** The same failure of one or more attempts, shown once, with the provider's message. */
export function FailureCard({ block }: { block: Extract<Block, { kind: 'failure' }> }) {
  const { model } = useDesk();
  const { failure } = block;
  const attempts = block.attempts.filter(({ seq }) => seq <= model.at.value);
  const [first, last] = [attempts[0], attempts.at(-1)];
  if (first === undefined || last === undefined) return null;
  const status = failure.status === undefined ? '' : ` (HTTP ${failure.status})`;
  const where = failure.model === undefined ? '' : ` of ${failure.model}`;
  const which =
    attempts.length === 1
      ? `Attempt ${first.attempt}`
      : `${attempts.length} attempts (${first.attempt} to ${last.attempt})`;
  const words = messageIn(failure.message);
  return (
    <div class="block failure">
      <p>
        <strong>{showSafely(`${which}${where} failed: ${failure.code}${status}`)}</strong>
      </p>
      <LongText text={words} kind="prose" />
      {words === failure.message ? null : (
        <Details summary="As the provider sent it">
          {() => <LongText text={failure.message} kind="mono" />}
        </Details>
      )}
      {attempts.map(({ key, seq, hadText }) => (
        <Discarded key={seq} hadText={hadText} text={model.streamed.get(key) ?? ''} />
      ))}
    </div>
  );
}

function Discarded({ hadText, text }: { hadText: boolean; text: string }) {
  if (!hadText) return null;
  if (text === '') return <p class="muted">The streamed text was discarded.</p>;
  return (
    <Details summary="The streamed text was discarded">
      {() => <LongText text={text} kind="discarded" />}
    </Details>
  );
}

/** The message in an error that a provider sent as JSON; other messages as they are. */
function messageIn(text: string): string {
  const start = text.indexOf('{');
  if (start === -1) return text;
  try {
    const { error, message } = JSON.parse(text.slice(start));
    const found = error?.message ?? message;
    return typeof found === 'string' && found !== '' ? `${text.slice(0, start)}${found}` : text;
  } catch {
    return text;
  }
}
