/** The order both sides pay back. */
export const ORDER = { orderId: 'order-1042', cents: 9_900 };
