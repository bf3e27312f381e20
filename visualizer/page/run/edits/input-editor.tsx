import { useSignal } from '@preact/signals';
import { canonicalJson, type JsonValue } from '../../../../protocol/json.ts';
import { editableJson, JsonField, readJson, useDraft } from '../../ui/draft-field.tsx';
import { Form } from '../../ui/form.tsx';
import type { Question } from '../../ui/two-presses.ts';

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
