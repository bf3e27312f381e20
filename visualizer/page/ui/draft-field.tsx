import { type Signal, useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { canonicalJson, type JsonValue, omitUndefined } from '../../../protocol/json.ts';
import { describeThrown } from '../data/request.ts';
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
    const what = describeThrown(error);
    return { problem: `Invalid JSON: ${what}. Put text in "quotes".` };
  }
}

type JsonFieldProps = { label: string; draft: Signal<string>; draftKey: string; before?: JsonValue };

/** The number of rows for a JSON text. */
export function jsonRows(text: string): number {
  return Math.min(16, Math.max(3, text.split('\n').length));
}

/** A JSON editor. With `before`, it shows the changes against it below the text. */
function JsonField({ before, draft, ...rest }: JsonFieldProps) {
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

type CheckProps = {
  label: ComponentChildren;
  checked: boolean;
  onCheck(isOn: boolean): void;
  class?: string;
};

/** A labelled checkbox. `onCheck` gets its new state; the caller holds it in `checked`. */
export function Check({ label, checked, onCheck, class: name = 'check' }: CheckProps) {
  return (
    <label class={name}>
      <input type="checkbox" checked={checked} onChange={event => onCheck(event.currentTarget.checked)} />{' '}
      {label}
    </label>
  );
}

type ChoiceProps = {
  value: string;
  /** The values, with their names where those differ. */
  options: readonly (string | readonly [value: string, name: string])[];
  onChoose(value: string): void;
  id?: string;
  name?: string;
  'aria-label'?: string;
};

/** One of some texts from a list. The caller labels it. */
export function Choice({ options, onChoose, ...rest }: ChoiceProps) {
  return (
    <select {...rest} onChange={event => onChoose(event.currentTarget.value)}>
      {options.map(option => {
        const [value, name] = typeof option === 'string' ? [option, option] : option;
        return (
          <option key={value} value={value}>
            {showSafely(name)}
          </option>
        );
      })}
    </select>
  );
}

type TextFormProps = Pick<TextFieldProps, 'rows' | 'mono' | 'required'> & {
  /** The label of the button; `field` is the one of the text. */
  label: string;
  field: string;
  /** The text is JSON, and changes are shown against `before`, if that is given. */
  json?: true;
  before?: JsonValue;
  draftKey: string;
  start?: string;
  /** The text before the field. */
  intro?: string;
  children?: ComponentChildren;
} & (
    | { ask(text: string): Question | string }
    | { /** Resolves to a problem for the person, or `null`. */ run(text: string): Promise<string | null> }
  );

/**
 * A form with one text. `ask` returns what a press asks, or what is wrong with the text; `run` sends it at once. What was
 * typed is kept until it is accepted; the caller drops the draft.
 */
export function TextForm(props: TextFormProps) {
  const { label, field, draftKey, intro, json, before, rows, mono, required, children } = props;
  const draft = useDraft(draftKey, props.start);
  const problem = useSignal('');
  const take = async (sent: Promise<unknown>): Promise<void> => {
    const refusal = await sent;
    problem.value = typeof refusal === 'string' ? refusal : '';
  };
  const read = (asked: Question | string): Question | null => {
    problem.value = typeof asked === 'string' ? asked : '';
    return typeof asked === 'string' ? null : { ...asked, act: () => take(asked.act()) };
  };
  const does =
    'ask' in props
      ? { ask: () => read(props.ask(draft.value)) }
      : { run: () => take(props.run(draft.value)) };
  const shared = { label: field, draft, draftKey };
  return (
    <Form label={label} problem={problem.value} {...does}>
      {intro === undefined ? null : <p>{intro}</p>}
      {json ? (
        <JsonField {...shared} {...omitUndefined({ before })} />
      ) : (
        <DraftField {...shared} {...omitUndefined({ rows, mono, required })} />
      )}
      {children}
    </Form>
  );
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

/** Edits the input of a call, with the changes below the text. */
export function InputEditor({ label, submit, unchanged, draftKey, input, words, send }: InputEditorProps) {
  const ask = (text: string): Question | string => {
    const edited = readJson(text);
    // The changes below the text say what is wrong with it.
    if ('problem' in edited) return '';
    if (canonicalJson(edited.value) === canonicalJson(input)) return unchanged;
    const act = () => send(edited.value);
    return { words: words?.(edited.value) ?? '', key: JSON.stringify(edited.value), act };
  };
  const shared = { json: true, before: input, start: editableJson(input), draftKey, ask } as const;
  return <TextForm label={submit} field={label} {...shared} />;
}
