import { type Signal, useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import type { JsonValue } from '../../../protocol/json.ts';
import { keepDraft, readDraft } from '../data/drafts.ts';
import { formatJson } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { Diff } from './diff.tsx';

/** A text that is kept over a reload until it is sent. `key` names the field. */
export function useDraft(key: string, start = ''): Signal<string> {
  return useSignal(readDraft(key) ?? start);
}

type FieldProps = {
  label: string;
  draft: Signal<string>;
  draftKey: string;
  rows?: number;
  mono?: boolean;
  required?: boolean;
  spoken?: boolean;
  placeholder?: string;
};

/** A text field for a draft. */
export function DraftField({
  label,
  draft,
  draftKey,
  rows = 1,
  mono,
  required,
  spoken,
  placeholder,
}: FieldProps) {
  const id = useId();
  const take = (text: string): void => {
    draft.value = text;
    keepDraft(draftKey, text);
  };
  const shared = { id, required: required === true, placeholder: placeholder ?? '', value: draft.value };
  return (
    <div class="field">
      <label for={id} class={spoken === true ? 'spoken' : ''}>
        {label}
      </label>
      {rows === 1 ? (
        <input type="text" maxLength={2_000} {...shared} onInput={event => take(event.currentTarget.value)} />
      ) : (
        <textarea
          rows={rows}
          spellcheck={mono !== true}
          class={mono === true ? 'mono' : ''}
          {...shared}
          onInput={event => take(event.currentTarget.value)}
        />
      )}
    </div>
  );
}

/** A JSON value, or a description of the problem. */
export type ReadJson = { value: JsonValue } | { problem: string };

/** Reads what a person typed as JSON. */
export function readJson(text: string): ReadJson {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    const what = error instanceof Error ? error.message : String(error);
    return { problem: `Invalid JSON: ${what}. Put text in "quotes".` };
  }
}

type JsonFieldProps = { label: string; draft: Signal<string>; draftKey: string; before?: JsonValue };

/** A JSON editor. With `before`, it shows the changes against it below the text. */
export function JsonField({ before, draft, ...rest }: JsonFieldProps) {
  const rows = Math.min(16, Math.max(3, draft.value.split('\n').length));
  const now = readJson(draft.value);
  return (
    <>
      <DraftField draft={draft} rows={rows} mono {...rest} />
      {before === undefined ? null : (
        <div class="changes" aria-live="polite">
          {'problem' in now ? (
            <p class="problem">{showSafely(now.problem)}</p>
          ) : (
            <Diff before={JSON.stringify(before, null, 2)} after={JSON.stringify(now.value, null, 2)} />
          )}
        </div>
      )}
    </>
  );
}

/** The initial text for a JSON editor. */
export function editableJson(value: JsonValue): string {
  return typeof value === 'string' ? JSON.stringify(value) : formatJson(value);
}
