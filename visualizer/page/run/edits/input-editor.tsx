import { useSignal } from '@preact/signals';
import { canonicalJson, type JsonValue } from '../../../../protocol/json.ts';
import { editableJson, JsonField, readJson, useDraft } from '../../ui/draft-field.tsx';
import { Form } from '../../ui/form.tsx';

type InputEditorProps = {
  /** The label of the field. */
  label: string;
  /** The label of the button. */
  submit: string;
  /** The hint if the input was sent without a change. */
  unchanged: string;
  draftKey: string;
  input: JsonValue;
  /** Sends the input. Resolves to a problem for the person, or `null`; the caller drops the draft. */
  send(input: JsonValue): Promise<string | null>;
};

/** Edits the input of a call, with the changes below the text. What was typed is kept until it is accepted. */
export function InputEditor({ label, submit, unchanged, draftKey, input, send }: InputEditorProps) {
  const draft = useDraft(draftKey, editableJson(input));
  const problem = useSignal('');
  const run = async (): Promise<void> => {
    const edited = readJson(draft.value);
    if ('problem' in edited) return;
    const isSame = canonicalJson(edited.value) === canonicalJson(input);
    problem.value = isSame ? unchanged : '';
    if (!isSame) problem.value = (await send(edited.value)) ?? '';
  };
  return (
    <Form label={submit} run={run} problem={problem.value}>
      <JsonField label={label} draft={draft} draftKey={draftKey} before={input} />
    </Form>
  );
}
