/** A message of the user, as `useChat` posts it. */
export const userMessage = (id: string, text: string) => ({
  id,
  role: 'user',
  parts: [{ type: 'text', text }],
});

/** The first answer of a run with a decision about its call `call_0_0` of `refund`, as `useChat` posts it. */
export const answeredMessage = (runId: string, approved: boolean) => ({
  id: `${runId}.1`,
  role: 'assistant',
  parts: [
    {
      type: 'tool-refund',
      toolCallId: 'call_0_0',
      state: 'approval-responded',
      input: {},
      approval: { id: `${runId}.1/call_0_0`, approved },
    },
  ],
});
