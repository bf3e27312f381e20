import { type Signal, useSignal } from '@preact/signals';
import { useId } from 'preact/hooks';
import { canonicalJson, type JsonValue } from '../../../protocol/json.ts';
import { formatJson } from '../render/format.ts';
import { showSafely } from '../render/show-safely.ts';
import { Diff } from './text.tsx';
import { Form, type Question } from './two-presses.tsx';

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

const PREFIX = 'agentchart.draft.';

/** Returns the unsent text of a field, which is kept over a reload. `key` names the field, such as `RUN/CALL/edit`. */
export function readDraft(key: string): string | null {
  return sessionStorage.getItem(PREFIX + key);
}

/** Keeps a draft. */
export function keepDraft(key: string, text: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // If the storage is full, the draft is not saved; the field still has its text.
  }
}

/** Returns the unsent texts of the fields whose keys begin with `key`. */
export function readDrafts(key: string): string[] {
  return Object.keys(sessionStorage).flatMap(name =>
    name.startsWith(PREFIX + key) ? [sessionStorage.getItem(name) ?? ''] : [],
  );
}

/** Whether there is unsent text in fields whose keys begin with `key`. */
export function hasDrafts(key: string): boolean {
  return readDrafts(key).length > 0;
}

/** Forgets the drafts whose keys begin with `key`. */
export function dropDrafts(key: string): void {
  for (const name of Object.keys(sessionStorage))
    if (name.startsWith(PREFIX + key)) sessionStorage.removeItem(name);
}

type InputEditorProps = {
  /** The label of the field. */
  label: string;
  /** The label of the button. */
  submit: string;
  /** The hint if the input was sent without a change. */
  unchanged: string;
  draftKey: string;
  input: JsonValue;
  /** What sending asks first; without it, one press sends. */
  words?(input: JsonValue): string;
  /** Sends the input. Resolves to a problem for the person, or `null`; the caller drops the draft. */
  send(input: JsonValue): Promise<string | null>;
};

/** Edits the input of a call, with the changes below the text. What was typed is kept until it is accepted. */
export function InputEditor({ label, submit, unchanged, draftKey, input, words, send }: InputEditorProps) {
  const draft = useDraft(draftKey, editableJson(input));
  const problem = useSignal('');
  const ask = (): Question | null => {
    const edited = readJson(draft.value);
    if ('problem' in edited) return null;
    const isSame = canonicalJson(edited.value) === canonicalJson(input);
    problem.value = isSame ? unchanged : '';
    if (isSame) return null;
    const act = async (): Promise<void> => {
      problem.value = (await send(edited.value)) ?? '';
    };
    return { words: words?.(edited.value) ?? '', key: JSON.stringify(edited.value), act };
  };
  return (
    <Form label={submit} ask={ask} problem={problem.value}>
      <JsonField label={label} draft={draft} draftKey={draftKey} before={input} />
    </Form>
  );
}
