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

type TextFieldProps = {
  label: string;
  value: string;
  onText(text: string): void;
  rows?: number;
  mono?: boolean;
  required?: boolean;
  spoken?: boolean;
  placeholder?: string;
  /** What is wrong with the text; empty if nothing is. */
  problem?: string;
  /** Texts to choose from, of a field with one row. */
  options?: readonly string[];
};

/** A text field with its label and its problem. */
export function TextField({
  label,
  value,
  onText,
  rows = 1,
  mono,
  required,
  spoken,
  placeholder,
  problem = '',
  options,
}: TextFieldProps) {
  const id = useId();
  const shared = {
    id,
    value,
    required: required === true,
    placeholder: placeholder ?? '',
    class: mono === true ? 'mono' : '',
    ...(problem === '' ? {} : { 'aria-invalid': true, 'aria-describedby': `${id}-problem` }),
  };
  return (
    <div class="field">
      <label for={id} class={spoken === true ? 'spoken' : ''}>
        {label}
      </label>
      {rows === 1 ? (
        <input
          type="text"
          maxLength={2_000}
          {...shared}
          list={options && `${id}-options`}
          onInput={event => onText(event.currentTarget.value)}
        />
      ) : (
        <textarea
          rows={rows}
          spellcheck={mono !== true}
          {...shared}
          onInput={event => onText(event.currentTarget.value)}
        />
      )}
      {options === undefined ? null : (
        <datalist id={`${id}-options`}>
          {options.map(option => (
            <option key={option} value={option} />
          ))}
        </datalist>
      )}
      <p class="problem" id={`${id}-problem`}>
        {showSafely(problem)}
      </p>
    </div>
  );
}

type FieldProps = Omit<TextFieldProps, 'value' | 'onText'> & { draft: Signal<string>; draftKey: string };

/** A text field for a draft. */
export function DraftField({ draft, draftKey, ...rest }: FieldProps) {
  const take = (text: string): void => {
    draft.value = text;
    keepDraft(draftKey, text);
  };
  return <TextField {...rest} value={draft.value} onText={take} />;
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

/** The number of rows for a JSON text. */
export function jsonRows(text: string): number {
  return Math.min(16, Math.max(3, text.split('\n').length));
}

/** A JSON editor. With `before`, it shows the changes against it below the text. */
export function JsonField({ before, draft, ...rest }: JsonFieldProps) {
  const now = readJson(draft.value);
  return (
    <>
      <DraftField draft={draft} rows={jsonRows(draft.value)} mono {...rest} />
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
