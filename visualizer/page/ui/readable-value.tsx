import type { JsonValue } from '../../../protocol/json.ts';
import { isJsonObject } from '../../../protocol/json.ts';
import { formatJson } from '../render/format.ts';
import { LongText, Safe } from './text.tsx';

const LONG = 90;

/** Whether a text is shown as a text of its own: it has lines, or is long. */
export function isProse(value: unknown): value is string {
  return typeof value === 'string' && (value.includes('\n') || value.length > LONG);
}

/** A value as a person reads it: texts as texts, members by name, and the rest as JSON. */
export function ReadableValue({ value }: { value: JsonValue }) {
  if (typeof value === 'string') return <LongText text={value} kind="prose" />;
  if (!isJsonObject(value)) return <LongText text={formatJson(value)} kind="mono" />;
  return (
    <dl class="readable">
      {Object.entries(value).map(([name, member]) => (
        <div key={name} class={isProse(member) ? 'block' : 'line'}>
          <dt>
            <Safe text={name} class="mono" />
          </dt>
          <dd>
            {isProse(member) ? (
              <LongText text={member} kind="prose" />
            ) : (
              <LongText text={typeof member === 'string' ? member : formatJson(member)} kind="mono" />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
