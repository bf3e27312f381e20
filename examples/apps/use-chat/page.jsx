import { useChat } from '@ai-sdk/react';

/** A chat with approvals. `id` and `messages` are what a reload needs: the server has both. */
export function ChatPage({ id, messages: before }) {
  const { messages, status, error, sendMessage, regenerate, addToolApprovalResponse } = useChat({
    id,
    messages: before,
    resume: true,
    sendAutomaticallyWhen: ({ messages }) => isAnswered(messages.at(-1)),
  });
  const submit = event => {
    event.preventDefault();
    const field = event.currentTarget.elements.namedItem('text');
    sendMessage({ text: field.value });
    field.value = '';
  };
  return (
    <main>
      {messages.map(message => (
        <article key={message.id} aria-label={message.role}>
          {message.parts.map((part, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: parts have no ids and keep their order
            <Part key={at} part={part} decide={addToolApprovalResponse} />
          ))}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={submit}>
        <input name="text" aria-label="Message" />
        <button type="submit">Send</button>
        <button type="button" onClick={() => regenerate()}>
          Again
        </button>
      </form>
      <output>{status}</output>
    </main>
  );
}

function Part({ part, decide }) {
  if (part.type === 'text') return <p>{part.text}</p>;
  if (!part.type.startsWith('tool-')) return null;
  const name = part.type.slice('tool-'.length);
  const answer = approved => decide({ id: part.approval.id, approved });
  return (
    <section aria-label={name}>
      {`${name} ${JSON.stringify(part.input ?? {})}: ${part.state}`}
      {part.state === 'approval-requested' && (
        <fieldset>
          <legend>{part.approval.requestReason}</legend>
          <button type="button" onClick={() => answer(true)}>
            Approve
          </button>
          <button type="button" onClick={() => answer(false)}>
            Reject
          </button>
        </fieldset>
      )}
      {part.state === 'output-available' && <code>{JSON.stringify(part.output)}</code>}
    </section>
  );
}

/** Whether every request for approval in the last step has an answer, and at least one was just given. */
function isAnswered(message) {
  const step =
    message?.parts.slice(message.parts.findLastIndex(part => part.type === 'step-start') + 1) ?? [];
  const states = step.flatMap(part => (part.type.startsWith('tool-') ? [part.state] : []));
  return states.includes('approval-responded') && !states.includes('approval-requested');
}
